from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg2
import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import COMMITTER, OWNER, STAGER, connect, transaction
from lockstep.core.errors import BadData, Superseded
from lockstep.core.planning.decisions import Caller
from lockstep.core.planning.routes import Route, Way
from lockstep.core.staging import AttemptId, stager_of
from lockstep.ledger.batch import attempts
from lockstep.ledger.batch import commit as ledger_commit
from lockstep.steps.attempt.resolve import was_committed
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from support.servers.timelines import Swapped, Timelines, copied

TABLES: dict[str, Any] = {
    "append": ("", ""),
    "upsert": ('Append("public.drill")', 'Upsert("public.drill", key=("id",))'),
    "by batch": ("", ""),
    "per partition": ('target=Append("public.drill"),', 'target=Append("public.drill"), guarantee=PerPartition(),'),
}
COLUMNS = (
    "id text{key}, n int, _stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
)
NEW = list(range(150))

ROUTE = Route(Way.PROCESS, "a test")


@pytest.fixture
def timelines(drill, postgres, database):
    """Yields `timelines(kind)`: the two timelines of the drill over such a table."""
    made: list = []

    def make(kind: str) -> Timelines:
        (old, new) = TABLES[kind]
        file = drill.home / "drill" / "__init__.py"
        text = file.read_text().replace("import Append,", "import Append, PerPartition, Upsert,")
        file.write_text(text.replace(old, new) if old else text)
        table = {
            "upsert": f"create table public.drill ({COLUMNS.format(key=' primary key')})",
            "by batch": f"create table public.drill ({COLUMNS.format(key='')}, unique (_stream, _offset, _ordinal, _batch))"
            " partition by list (_batch)",
        }
        ddl = table.get(
            kind, f"create table public.drill ({COLUMNS.format(key='')}, primary key (_stream, _offset, _ordinal))"
        )
        with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(f"set role lockstep_owner; drop table public.drill; {ddl}")
            cur.execute(
                "grant select, insert, update, delete on public.drill to lockstep_committer, lockstep_partition"
            )
        copy = copied(postgres, database)
        made.append((copy, Timelines(drill, copy.__enter__())))
        return made[-1][1]

    yield make
    for copy, each in made:
        each.end()
        copy.__exit__(None, None, None)


def staged(here, *, until: str = "validated") -> AttemptId:
    """Plans a batch, and stages and validates an attempt at it, in this timeline."""
    planned = here.plan()
    batch = getattr(planned, "batch_id", None) or here.drill.ask("select max(batch_id) from lockstep.batch")[0][0]
    attempt = stage(here.at, here.engine, here.folder, batch, Caller("me"))
    if until == "validated":
        validate(here.at, here.folder, attempt)
    return attempt


def answer(act) -> Exception | None:
    """Returns the refusal of an act. A mutant may let another guard refuse it, or none."""
    try:
        act()
    except Exception as refusal:  # noqa: BLE001 - which one it is, the test looks at
        return refusal
    return None


def numbers(attempt: AttemptId) -> tuple[int, int]:
    return attempt.batch_id, attempt.token


@pytest.mark.parametrize("kind", ["append", "upsert", "by batch"])
def test_an_attempt_of_a_lost_timeline_does_not_commit_under_a_number_that_was_drawn_again(timelines, kind):
    both = timelines(kind)
    lost, newest = staged(both.lost), staged(both.survivor)
    assert numbers(lost) == numbers(newest), "the survivor draws the same numbers"

    with pytest.raises(Superseded, match="timeline"):
        commit(both.survivor.at, both.survivor.folder, lost)
    assert both.values() == []

    commit(both.survivor.at, both.survivor.folder, newest)
    assert both.values() == NEW


def test_a_lost_timeline_in_doubt_is_not_told_that_a_stranger_s_commit_was_its_own(timelines):
    both = timelines("append")
    lost, newest = staged(both.lost), staged(both.survivor)
    commit(both.survivor.at, both.survivor.folder, newest)

    with pytest.raises(Superseded, match="timeline"):
        was_committed(both.survivor.at, lost)
    with pytest.raises(Superseded):
        commit(both.survivor.at, both.survivor.folder, lost)

    assert was_committed(both.survivor.at, newest)


def test_a_lost_timeline_in_doubt_before_the_stranger_s_commit_is_told_so(timelines):
    both = timelines("append")
    lost, _ = staged(both.lost), staged(both.survivor)
    with pytest.raises(Superseded, match="timeline"):
        was_committed(both.survivor.at, lost)


@pytest.mark.parametrize("kind", ["append", "upsert", "by batch"])
def test_rows_of_a_lost_timeline_do_not_reach_the_staging_of_a_number_that_was_drawn_again(timelines, kind):
    both = timelines(kind)
    newest: list[AttemptId] = []

    def meanwhile() -> None:
        newest.append(staged(both.survivor, until="staged"))

    batch = both.lost.plan() and both.lost.drill.ask("select max(batch_id) from lockstep.batch")[0][0]
    with pytest.raises(BadData, match="does not exist"):
        stage(both.lost.at, Swapped(both, meanwhile), both.lost.folder, batch, Caller("me"))

    validate(both.survivor.at, both.survivor.folder, newest[0])
    commit(both.survivor.at, both.survivor.folder, newest[0])
    assert both.values() == NEW


def test_per_partition_a_task_of_a_lost_timeline_commits_no_range(timelines):
    both = timelines("per partition")

    def meanwhile() -> None:
        both.survivor.plan()
        work = both.survivor
        with transaction(work.at.conn, STAGER) as cur:
            batch = both.survivor.drill.ask("select max(batch_id) from lockstep.batch")[0][0]
            attempts.open_attempt(cur, batch, work.folder, Caller("me"), attempts.Opening({}, "1", ROUTE, "stream"))  # type: ignore[arg-type]

    batch = both.lost.plan() and both.lost.drill.ask("select max(batch_id) from lockstep.batch")[0][0]
    with pytest.raises(Superseded, match="restored"):
        stage(both.lost.at, Swapped(both, meanwhile), both.lost.folder, batch, Caller("me"))

    assert both.values() == []
    assert both.survivor.drill.ask("select distinct position from lockstep.stream") == [(0,)]
    both.survivor.run(take_over=True)
    both.survivor.drain()
    assert both.values() == NEW


def test_a_lease_of_a_lost_timeline_is_not_renewed_and_its_failure_closes_no_stranger(timelines):
    both = timelines("append")
    lost, newest = staged(both.lost), staged(both.survivor)
    with transaction(both.survivor.at.conn, STAGER) as cur:
        assert not attempts.renew_lease(cur, lost)
        assert attempts.renew_lease(cur, newest)
        attempts.close_failed(cur, lost, "not mine", by_data=True)
        attempts.free_lease(cur, lost)
    assert both.survivor.drill.ask(
        "select state, lease_until > clock_timestamp() from lockstep.attempt where token = %s", newest.token
    ) == [("validated", True)]


def test_a_batch_number_that_another_pipeline_has_now_is_not_staged(timelines):
    both = timelines("append")
    both.survivor.plan()
    with transaction(both.survivor.at.conn, OWNER) as cur:
        cur.execute("insert into lockstep.pipeline (name) values ('other')")
        cur.execute("update lockstep.batch set pipeline = 'other'")
    batch = both.survivor.drill.ask("select max(batch_id) from lockstep.batch")[0][0]
    with pytest.raises(Superseded, match="other"):
        stage(both.survivor.at, both.survivor.engine, both.survivor.folder, batch, Caller("me"))


# The database alone, with the code's own look out of play.


def test_the_database_refuses_a_commit_that_names_another_nonce(timelines, monkeypatch):
    both = timelines("append")
    lost, newest = staged(both.lost), staged(both.survivor)
    monkeypatch.setattr(attempts, "require_same_timeline", lambda *_: None)
    monkeypatch.setattr(ledger_commit, "require_validated", lambda *_: None)
    monkeypatch.setattr(AttemptId, "table", newest.table)
    refusal = answer(lambda: commit(both.survivor.at, both.survivor.folder, lost))
    assert isinstance(refusal, errors.CheckViolation), refusal
    assert "same_timeline" in str(refusal)
    assert both.values() == []


def test_the_code_refuses_it_with_the_database_s_own_look_out_of_play(timelines):
    both = timelines("append")
    lost, _ = staged(both.lost), staged(both.survivor)
    with transaction(both.survivor.at.conn, OWNER) as cur:
        cur.execute("drop trigger same_timeline on lockstep.commit")
    refusal = answer(lambda: commit(both.survivor.at, both.survivor.folder, lost))
    assert isinstance(refusal, Superseded), refusal
    assert both.values() == []


def test_the_nonce_of_a_batch_changes_with_its_token_alone(timelines):
    both = timelines("append")
    attempt = staged(both.survivor)
    assert attempt.nonce
    with (
        pytest.raises(errors.CheckViolation, match="nonce_with_token"),
        transaction(both.survivor.at.conn, OWNER) as cur,
    ):
        cur.execute("update lockstep.batch set nonce = gen_random_uuid()")


def test_a_nonce_is_drawn_once(timelines):
    both = timelines("append")
    first = staged(both.survivor)
    second = staged(both.survivor)
    assert first.nonce != second.nonce
    with pytest.raises(errors.UniqueViolation, match="nonce_once"), transaction(both.survivor.at.conn, OWNER) as cur:
        cur.execute("update lockstep.attempt set nonce = %s where closed_at is null", (first.nonce,))


def test_only_an_attempt_s_own_table_becomes_a_partition(timelines):
    both = timelines("by batch")
    attempt = staged(both.survivor)
    stranger = f"lockstep_staging.attempt_{attempt.batch_id}_{attempt.token}_{'0' * 12}"
    with closing(connect(both.survivor.drill.dsn)) as conn:
        with transaction(conn, STAGER) as cur:
            cur.execute(f"create table {stranger} (like {'lockstep_staging.' + attempt.table})")
        with pytest.raises(errors.CheckViolation, match="own_staging"), transaction(conn, COMMITTER) as cur:
            cur.execute("select lockstep.guard_staged(%s, %s, %s)", (stranger, attempt.batch_id, attempt.token))
        with transaction(conn, COMMITTER) as cur:
            own = f"lockstep_staging.{attempt.table}"
            cur.execute("select lockstep.guard_staged(%s, %s, %s)", (own, attempt.batch_id, attempt.token))


def test_staging_that_another_timeline_left_is_swept_and_the_newest_attempt_s_is_not(timelines):
    both = timelines("append")
    attempt = staged(both.survivor)
    stranger = f"attempt_{attempt.batch_id}_{attempt.token}_{'0' * 12}"
    with transaction(both.survivor.at.conn, STAGER) as cur:
        cur.execute(f"create table lockstep_staging.{stranger} (_stream int)")
    with transaction(both.survivor.at.conn, COMMITTER) as cur:
        assert [table.strings[-1] for table in ledger_commit.staging_left(cur)] == [stranger]


def test_an_attempt_that_older_code_opened_still_commits(timelines):
    both = timelines("append")
    attempt = staged(both.survivor)
    older = AttemptId(attempt.batch_id, attempt.token)
    with transaction(both.survivor.at.conn, OWNER) as cur:
        cur.execute("alter table lockstep.batch disable trigger nonce_with_token")
        cur.execute("update lockstep.batch set nonce = null")
        cur.execute("update lockstep.attempt set nonce = null")
        cur.execute(f"alter table lockstep_staging.{attempt.table} rename to {older.table}")
    commit(both.survivor.at, both.survivor.folder, older)
    assert both.values() == NEW


@pytest.mark.parametrize(
    ("attempt", "table", "stager"),
    [
        (AttemptId(7, 12), "attempt_7_12", "lockstep stage 7.12"),
        (
            AttemptId(7, 12, "0f8fad5b-d9cb-469f-a165-70867728950e"),
            "attempt_7_12_0f8fad5bd9cb",
            "lockstep stage 7.12.0f8fad5bd9cb",
        ),
    ],
)
def test_the_names_of_an_attempt_lead_back_to_its_sessions(attempt, table, stager, conn):
    assert (attempt.table, attempt.stager) == (table, stager)
    for name in (attempt.table, attempt.beside(1), attempt.raw_table):
        assert stager_of(name) == stager
    assert AttemptId.of_fence(7, attempt.fence) == attempt
    with transaction(conn, OWNER) as cur:
        cur.execute("select lockstep.staging_name(7, 12, %s)", (attempt.nonce,))
        assert cur.fetchone()[0] == table
