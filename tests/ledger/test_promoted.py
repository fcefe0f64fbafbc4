"""A promoted transform makes every offset from the promotion on, and no other one commits."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg2
import pytest

from lockstep.adapters.postgres import OWNER, PLANNER, READER, transaction
from lockstep.core.changes.person import Person
from lockstep.core.changes.promotion import transform_digest
from lockstep.core.errors import DefinitionChanged, LockTimeout, Refusal
from lockstep.core.planning.decisions import Blocked, Idle, Resume
from lockstep.ledger.changes import promotions
from lockstep.steps.batch import commit as committing
from lockstep.steps.batch import commit_batch
from lockstep.steps.changes.promote import promote, withdraw_promotion
from support.scenes.here import ME

ANN = Person("ann", "amounts are in cents")
OLD = "def transform(records):\n    return records\n"
NEW, NEWEST = (f"{OLD}# version {version}\n" for version in (2, 3))
POSITIONS = (
    "select topic, partition, stream_id, position from lockstep.stream where retired_at is null order by stream_id"
)
MADE_BY = """select s.partition, lower(r.offsets), upper(r.offsets), d.document ->> 'transform'
    from lockstep.commit c join lockstep.batch_range r using (batch_id, stream_id) join lockstep.stream s using (stream_id)
    join lockstep.definition d using (definition_hash) order by 1, 2"""
DECISION = (
    "insert into lockstep.decision (pipeline, kind, who, why, detail) values (%s, %s, 'me', 'x', %s) returning detail"
)
BATCH = "select from lockstep.batch where batch_id = {} for no key update"


def deploy(here, source: str) -> None:
    (here.drill.home / "drill" / "transform.py").write_text(source)


@pytest.fixture
def here(contents):
    made = contents("append")
    deploy(made, OLD)
    return made


def promoted(here, source: str = NEW, person: Person = ANN, canary: dict | None = None):
    folder = replace(here.folder, transform=source, transform_file=Path("made/new.py"))
    return promote(here.at.conn, folder, person, canary)


def send(here, produce, number: int) -> None:
    for partition in range(3):
        produce(here.drill.topic, [("k", json.dumps({"id": f"{number}-{partition}", "n": 1}))], partition=partition)


def starts(made) -> list[tuple]:
    return [(each["topic"], each["partition"], each["stream"], each["offset"]) for each in made.starts]


def test_every_offset_before_is_made_by_the_old_one_and_every_offset_behind_by_the_new_one(here, produce):
    here.drain()
    stood = here.drill.ask(POSITIONS)

    made, changed = promoted(here, canary={"batches": [1]})

    assert (changed, made.who, made.why, made.file, made.transform) == (
        True,
        "ann",
        ANN.why,
        "new.py",
        transform_digest(NEW),
    )
    assert starts(made) == stood
    assert made.canary == {"batches": [1]}
    send(here, produce, 1)
    assert isinstance(here.plan(), Blocked)
    deploy(here, NEW)
    here.drain()
    begins = {partition: offset for _, partition, _, offset in stood}
    by = here.drill.ask(MADE_BY)
    assert {(row[3], row[2] <= begins[row[0]], row[1] >= begins[row[0]]) for row in by} == {
        (OLD, True, False),
        (NEW, False, True),
    }
    assert here.drill.violations() == []


def test_a_plan_is_blocked_until_the_folder_has_the_promoted_transform(here, produce):
    here.drain()
    made, _ = promoted(here)
    send(here, produce, 1)
    for source in (OLD, NEWEST):
        deploy(here, source)
        found = here.plan()
        assert isinstance(found, Blocked)
        assert f"ann promoted new.py ({transform_digest(NEW)[:16]}) in decision {made.decision}" in found.reason
        assert transform_digest(source)[:16] in found.reason
    deploy(here, NEW)
    here.drain()
    assert here.drill.ask("select count(*) from public.drill") == [(153,)]


@pytest.mark.parametrize("step", ["staged", "validated"])
def test_a_batch_under_way_ends_with_the_reason_and_is_made_whole_by_the_new_one(here, step):
    attempt = getattr(here, step)()
    before = here.folder

    made, _ = promoted(here)

    assert [each["offset"] for each in made.starts] == [0, 0, 0]
    if step == "validated":
        with pytest.raises(DefinitionChanged, match=f"in decision {made.decision}, and the folder here has"):
            committing.commit(here.at, before, attempt)
        assert here.drill.ask("select state, fault from lockstep.attempt") == [("failed", "surroundings")]
    assert isinstance(here.plan(), Blocked)
    deploy(here, NEW)
    assert isinstance(here.plan(), Resume)
    here.run(take_over=True)
    assert {row[3] for row in here.drill.ask(MADE_BY)} == {NEW}
    assert here.drill.ask("select count(*) from lockstep.batch") == [(1,)]


def test_the_database_refuses_another_transform_with_the_code_out_of_play(here, monkeypatch):
    attempt = here.validated()
    promoted(here)
    monkeypatch.setattr(commit_batch, "require_promoted", lambda *_: None)

    with pytest.raises(psycopg2.errors.CheckViolation, match="promoted_alone: batch") as refused:
        here.commit(attempt)

    assert refused.value.diag.constraint_name == "promoted_alone"
    assert here.drill.ask("select count(*) from public.drill") == [(0,)]
    assert here.drill.ask("select sum(position) from lockstep.stream") == [(0,)]


def test_a_folder_without_a_transform_is_another_one(contents, monkeypatch):
    here = contents("append")
    attempt = here.validated()
    promoted(here)
    monkeypatch.setattr(commit_batch, "require_promoted", lambda *_: None)
    with pytest.raises(psycopg2.errors.CheckViolation, match="promoted_alone"):
        here.commit(attempt)


def test_a_promotion_waits_for_a_commit_under_way(here, monkeypatch):
    attempt = here.validated()
    monkeypatch.setitem(transaction.__wrapped__.__kwdefaults__, "lock_seconds", 0.5)  # type: ignore[attr-defined]
    with closing(psycopg2.connect(here.drill.dsn)) as other:
        other.cursor().execute(f"set role lockstep_committer; {BATCH.format(attempt.batch_id)}")
        with pytest.raises(LockTimeout, match="a plan or a commit is under way"):
            promoted(here)
    assert here.drill.ask("select count(*) from lockstep.decision") == [(0,)]
    here.commit(attempt)
    made, _ = promoted(here)
    assert sum(each["offset"] for each in made.starts) == 150


def test_fills_and_replays_wait_too_and_a_preview_does_not(here):
    here.drain()
    made, _ = promoted(here)
    asked = here.ask("replay", "0:0", "0:5")
    *_, last = here.work(asked)
    assert isinstance(last.decision, Blocked)
    assert f"in decision {made.decision}" in last.decision.reason
    found, decision = here.preview("replay", "0:5", "0:9")
    assert (found is not None, isinstance(decision, Blocked)) == (True, False)
    deploy(here, NEW)
    *_, last = here.work(asked)
    assert isinstance(last.decision, Idle)


def test_the_same_promotion_changes_nothing_and_a_second_one_supersedes(here, produce):
    here.drain()
    first, _ = promoted(here)
    assert promoted(here, person=ME) == (first, False)
    deploy(here, NEW)
    send(here, produce, 1)
    here.drain()

    second, changed = promoted(here, NEWEST, ME)

    assert (changed, second.transform) == (True, transform_digest(NEWEST))
    assert starts(second) == here.drill.ask(POSITIONS)
    assert sum(each["offset"] for each in second.starts) == 153
    assert isinstance(here.plan(), Blocked)
    back, _ = promoted(here, NEW)
    assert back.decision > second.decision
    assert isinstance(here.plan(), Idle)
    assert here.drill.ask("select count(*) from lockstep.decision where kind = 'promote'") == [(3,)]


def test_a_withdrawal_lets_any_transform_commit_again(here, produce):
    here.drain()
    made, _ = promoted(here)
    send(here, produce, 1)
    assert isinstance(here.plan(), Blocked)

    done = withdraw_promotion(here.at.conn, "drill", ME)

    assert done.promotion == made
    assert starts(done) == here.drill.ask(POSITIONS)
    assert here.drill.ask("select kind, who, detail -> 'promotion' from lockstep.decision order by decision_id") == [
        ("promote", "ann", None),
        ("withdraw", "me", made.decision),
    ]
    here.drain()
    assert {row[3] for row in here.drill.ask(MADE_BY)} == {OLD}
    assert withdraw_promotion(here.at.conn, "drill", ME) is None
    with transaction(here.at.conn, READER) as cur:
        assert promotions.promotion_in_force(cur, "drill") is None


def test_streams_that_open_later_are_made_by_the_promoted_one_too(here):
    here.drain()
    promoted(here)
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute("update lockstep.stream set retired_at = clock_timestamp() where partition = 0")
    found = here.plan()
    assert isinstance(found, Blocked)
    assert "promoted new.py" in found.reason


def test_nothing_is_promoted_before_the_first_plan(here):
    with pytest.raises(Refusal, match="drill: no plan has read its topic yet") as refused:
        promoted(here)
    assert refused.value.next_command == "lockstep run drill"
    assert here.drill.ask("select count(*) from lockstep.decision") == [(0,)]


def decided(here, kind: str, detail: dict):
    with transaction(here.at.conn, PLANNER) as cur:
        cur.execute(DECISION, ("drill", kind, json.dumps(detail)))
        return cur.fetchone()[0]


@pytest.mark.parametrize(
    "detail",
    [{}, {"transform": None}, {"transform": "abc"}, {"transform": "G" * 64}],
    ids=["nothing", "null", "short", "letters"],
)
def test_the_database_refuses_a_promotion_that_does_not_name_its_transform(here, detail):
    here.drain()
    with pytest.raises(psycopg2.errors.CheckViolation, match="promote_is_told"):
        decided(here, "promote", detail)


def test_the_database_refuses_a_promotion_that_begins_nowhere(here):
    with pytest.raises(psycopg2.errors.CheckViolation, match="promote_is_told"):
        decided(here, "promote", {"transform": transform_digest(NEW), "from": [{"offset": 1}]})


def test_the_database_writes_down_the_offsets_itself_whatever_it_is_told(here):
    here.drain()
    found = decided(here, "promote", {"transform": transform_digest(NEW), "from": [{"partition": 0, "offset": 1}]})
    stood = [{"topic": t, "partition": p, "stream": s, "offset": o} for t, p, s, o in here.drill.ask(POSITIONS)]
    assert found == {"transform": transform_digest(NEW), "from": stood}


def test_the_database_withdraws_nothing_that_is_not_promoted(here):
    here.drain()
    with pytest.raises(psycopg2.errors.CheckViolation, match="withdrawn_is_promoted: no transform of drill"):
        decided(here, "withdraw", {})
    promoted(here)
    decided(here, "withdraw", {})
    with pytest.raises(psycopg2.errors.CheckViolation, match="withdrawn_is_promoted"):
        decided(here, "withdraw", {})
