"""A pipeline ends by a decision: the ledger keeps its history, gives its tables free, and lets nothing begin."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import PLANNER, connect, transaction
from lockstep.core.changes.person import Person
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.ledger.batch.plan import lock_pipeline
from lockstep.ledger.changes import decisions as written
from lockstep.ledger.changes import forgotten as ended
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.changes import decisions
from lockstep.steps.changes.forget import forget, remember
from lockstep.steps.proof.verify import verify
from support.fakes.plain_engine import PlainEngine
from support.scenes.here import ME, Here

ANN = Person("ann", "the shop closed")
VALUES = "select count(*), count(distinct id), sum(n) from public.drill"
ONCE = (150, 150, sum(range(150)))
HISTORY = """select (select count(*) from lockstep.batch), (select count(*) from lockstep.commit),
    (select count(*) from lockstep.result),
    (select count(*) from lockstep.coverage), (select array_agg(position order by partition) from lockstep.stream)"""
KINDS = "select kind, who, why from lockstep.decision order by decision_id"


@pytest.fixture
def here(drill):
    made = Here(drill)
    yield made
    made.at.close()


def refused(here, statement: str, *values: Any) -> str:
    """The name of the constraint that refuses a planner's statement."""
    with pytest.raises(psycopg2.errors.CheckViolation) as error, transaction(here.at.conn, PLANNER) as cur:
        cur.execute(statement, values)
    return error.value.diag.constraint_name


def copy_of(here: Here, name: str):
    source, folder = here.drill.home / "drill", here.drill.home / name
    folder.mkdir()
    for file in ("__init__.py", "target.sql"):
        (folder / file).write_text((source / file).read_text().replace('name="drill"', f'name="{name}"'))
    return load(name)


def test_a_forgotten_pipeline_keeps_its_history_and_its_rows_and_gives_its_table_free(here):
    here.drain()
    before = here.drill.ask(HISTORY)

    done = forget(here.at.conn, "drill", ANN)

    assert (done.changed, [str(table) for table in done.tables], done.requests) == (True, ["public.drill"], ())
    assert sorted((row.partition, row.position) for row in done.positions) == sorted(
        here.drill.ask("select partition, position from lockstep.stream")
    )
    assert here.drill.ask(HISTORY) == before
    assert here.drill.ask(VALUES) == [ONCE]
    assert here.drill.ask("select count(*) from lockstep.target_owner") == [(0,)]
    assert here.drill.ask(KINDS) == [("forget", "ann", "the shop closed")]
    assert here.drill.ask("select detail from lockstep.decision") == [
        ({"tables": [{"store": "", "target": "public.drill"}], "requests": []},)
    ]
    # the chain holds the decision, sealed at once: no later run does it
    assert here.drill.ask("select count(*) from lockstep.unsealed") == [(0,)]
    assert here.drill.ask("select count(*) from lockstep.link where decision_id is not null") == [(1,)]
    checks = verify(here.at.conn, here.at.broker, here.folder, deep=True)
    assert [check.name for check in checks if not check.ok] == []


def test_a_second_forgetting_changes_nothing_and_says_whose_the_first_was(here):
    here.drain()
    forget(here.at.conn, "drill", ANN)

    again = forget(here.at.conn, "drill", ME)

    assert (again.changed, again.tables) == (False, ())
    assert again.by.startswith("ann at ")
    assert again.by.endswith(": the shop closed")
    assert here.drill.ask("select count(*) from lockstep.decision") == [(1,)]


def test_nothing_is_planned_decided_or_set_up_for_a_forgotten_pipeline(here):
    here.drain()
    forget(here.at.conn, "drill", ANN)
    before = here.drill.ask(HISTORY)

    for act in (
        here.run,
        here.plan,
        lambda: here.ask("replay"),
        lambda: here.skip(None),
        lambda: decisions.pause(here.at.conn, "drill", ME),
        lambda: migrate_target(here.at.conn, here.folder),
    ):
        with pytest.raises(Refusal, match=r"drill was forgotten by ann at .*: the shop closed") as refusal:
            act()
        assert "lockstep forget drill --undo --reason ..." in refusal.value.next_command
    assert here.drill.ask(HISTORY) == before
    assert here.drill.ask("select count(*) from lockstep.request") == [(0,)]


def test_a_pipeline_with_a_batch_under_way_is_not_forgotten(here):
    planned = here.plan()

    with pytest.raises(Refusal, match=r"drill: batch \d+ is unfinished") as refusal:
        forget(here.at.conn, "drill", ANN)

    assert "lockstep abandon" in refusal.value.next_command
    assert here.drill.ask("select forgotten_by from lockstep.pipeline") == [(None,)]
    assert here.drill.ask("select pipeline from lockstep.target_owner") == [("drill",)]
    assert here.drill.ask("select count(*) from lockstep.decision") == [(0,)]
    assert planned.ranges


def test_open_requests_are_closed_with_their_pipeline(here):
    here.drain()
    asked = here.ask("replay", "0:0", "0:5")

    done = forget(here.at.conn, "drill", ANN)

    assert done.requests == (asked.request_id,)
    assert here.drill.ask("select closed_at is not null from lockstep.request") == [(True,)]


def test_a_name_that_the_ledger_does_not_have_is_refused_and_not_written(here):
    for act in (forget, remember):
        with pytest.raises(Refusal, match="the ledger has no pipeline 'nobody'; it has: drill"):
            act(here.at.conn, "nobody", ANN)
    assert here.drill.ask("select name from lockstep.pipeline") == [("drill",)]


def test_an_undone_forgetting_goes_on_where_the_pipeline_stopped(here, produce):
    here.drain()
    forget(here.at.conn, "drill", ANN)

    assert remember(here.at.conn, "drill", ME) is True

    produce(here.drill.topic, [("k", '{"id": "later", "n": 1000}')])
    here.drain()
    assert here.drill.ask(VALUES) == [(151, 151, sum(range(150)) + 1000)]
    assert here.drill.ask("select pipeline from lockstep.target_owner") == [("drill",)]
    assert here.drill.ask(KINDS) == [("forget", "ann", "the shop closed"), ("remember", "me", "a test")]
    assert remember(here.at.conn, "drill", ME) is False
    assert forget(here.at.conn, "drill", ANN).changed


def test_another_pipeline_may_own_the_table_and_the_first_may_not_come_back_to_it(here, produce):
    here.drain()
    other = copy_of(here, "other")
    with pytest.raises(Refusal, match=r"public\.drill belongs to drill"):
        migrate_target(here.at.conn, other)
    forget(here.at.conn, "drill", ANN)
    here.drill.ask("truncate public.drill; select 1")

    migrate_target(here.at.conn, other)
    engine = PlainEngine(other, here.drill.kafka, here.drill.dsn)
    while run(here.at, engine, other, Caller("me")).went_on:
        pass

    assert here.drill.ask(VALUES) == [ONCE]
    assert here.drill.ask("select pipeline from lockstep.target_owner") == [("other",)]
    assert [c.name for c in verify(here.at.conn, here.at.broker, other, deep=True) if not c.ok] == []
    remember(here.at.conn, "drill", ME)
    produce(here.drill.topic, [("k", '{"id": "later", "n": 1000}')])
    assert "public.drill belongs to other" in here.plan().reason


def test_a_table_written_before_owners_were_recorded_is_free_too(here):
    here.drain()
    here.drill.ask("set role lockstep_owner; delete from lockstep.target_owner returning 1")

    done = forget(here.at.conn, "drill", ANN)

    assert [str(table) for table in done.tables] == ["public.drill"]
    assert here.drill.ask("select pipeline from lockstep.target_writer") == []
    migrate_target(here.at.conn, copy_of(here, "other"))
    assert here.drill.ask("select pipeline from lockstep.target_owner") == [("other",)]


def test_erasures_follow_the_rows_to_the_tables_next_owner(here):
    here.drain()
    forget(here.at.conn, "drill", ANN)
    assert here.drill.ask("select lockstep.line_of('other')") == [(["other"],)]

    migrate_target(here.at.conn, copy_of(here, "other"))

    assert here.drill.ask("select lockstep.line_of('other')") == [(["other", "drill"],)]
    assert here.drill.ask("select lockstep.line_of('drill')") == [(["drill"],)]


BATCH = "insert into lockstep.batch (pipeline, lane, owner, lease_until) values ('drill', 'live', 'raw', now())"
OWNER = "insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.drill', 'drill')"
REQUEST = "insert into lockstep.request (pipeline, lane, token, who, why) values ('drill', 'fill', 0, 'raw', 'raw')"
STREAM = """insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch,
    start_offset, position) select 'drill', 'c', min(topic), 'i', 9, 0, 9, 0, 0 from lockstep.stream"""


@pytest.mark.parametrize("statement", [BATCH, REQUEST, STREAM, OWNER], ids=["batch", "request", "stream", "owner"])
def test_the_database_lets_nothing_begin_for_a_forgotten_pipeline(here, statement):
    here.drain()
    forget(here.at.conn, "drill", ANN)
    assert refused(here, statement) == "forgotten_rests"
    remember(here.at.conn, "drill", ME)
    with transaction(here.at.conn, PLANNER) as cur:
        cur.execute(statement)


@pytest.mark.parametrize(
    ("statement", "kept"),
    [(BATCH, "a batch under way"), (REQUEST, "an open request"), (OWNER, "a table")],
    ids=["a batch", "a request", "an owner"],
)
def test_the_database_forgets_no_pipeline_that_has_something_under_way(here, statement, kept):
    here.drain()
    with transaction(here.at.conn, "lockstep_owner") as cur:
        ended.free_tables(cur, "drill")
        cur.execute(statement)

    with (
        pytest.raises(psycopg2.errors.CheckViolation, match=f"drill has {kept}") as error,
        transaction(here.at.conn, PLANNER) as cur,
    ):
        ended.end(cur, "drill", written.record(cur, "drill", "forget", ANN, {"tables": []}))

    assert error.value.diag.constraint_name == "forgotten_is_idle"
    assert here.drill.ask("select forgotten_by from lockstep.pipeline") == [(None,)]


def test_the_database_wants_the_newest_decision_for_each_end_and_each_return(here):
    here.drain()
    first = decide(here, "drill", "forget")
    other = decide(here, "stranger", "forget")
    assert refused(here, "update lockstep.pipeline set forgotten_by = %s where name = 'drill'", other) == DECIDED
    newest = decide(here, "drill", "forget")
    assert refused(here, "update lockstep.pipeline set forgotten_by = %s where name = 'drill'", first) == DECIDED
    with transaction(here.at.conn, "lockstep_owner") as cur:
        ended.free_tables(cur, "drill")
        ended.end(cur, "drill", newest)
    assert refused(here, "update lockstep.pipeline set forgotten_by = null where name = 'drill'") == DECIDED
    later = decide(here, "drill", "forget")
    assert refused(here, "update lockstep.pipeline set forgotten_by = %s where name = 'drill'", later) == DECIDED
    assert refused(here, "insert into lockstep.pipeline (name, forgotten_by) values ('born', %s)", later) == DECIDED
    back = decide(here, "drill", "remember")
    assert refused(here, "update lockstep.pipeline set forgotten_by = %s where name = 'stranger'", back) == DECIDED


DECIDED = "forgotten_is_decided"


def decide(here: Here, pipeline: str, kind: str) -> int:
    with transaction(here.at.conn, PLANNER) as cur:
        lock_pipeline(cur, pipeline, even_forgotten=True)
        return written.record(cur, pipeline, kind, ANN, {"tables": []})


@pytest.mark.parametrize(
    "detail",
    ["{}", '{"tables": "x"}', '{"tables": ["x"]}', '{"tables": [{"store": ""}]}'],
    ids=["no tables", "no list", "no objects", "no target"],
)
def test_the_database_refuses_a_forgetting_that_does_not_tell_its_tables(here, detail):
    row = "insert into lockstep.decision (pipeline, kind, who, why, detail) values ('drill', 'forget', 'me', 'x', %s)"
    assert refused(here, row, detail) == "forget_is_told"


def test_a_batch_that_is_being_planned_is_waited_for(here):
    """With the code's lock out of play: the batch's own trigger shares the pipeline's row until COMMIT."""
    here.drain()
    with closing(connect(here.drill.dsn)) as planner:
        with transaction(planner, PLANNER) as cur:
            cur.execute(BATCH)
            told: list[BaseException | None] = []
            waits = threading.Thread(target=lambda: told.append(ended_by_hand(here)))
            waits.start()
            waits.join(0.7)
            assert not told
        waits.join(20)
    assert isinstance(told[0], psycopg2.errors.CheckViolation)
    assert told[0].diag.constraint_name == "forgotten_is_idle"


def ended_by_hand(here: Here) -> BaseException | None:
    try:
        with transaction(here.at.conn, PLANNER) as cur:
            ended.free_tables(cur, "drill")
            ended.end(cur, "drill", written.record(cur, "drill", "forget", ANN, {"tables": []}))
    except psycopg2.Error as error:
        return error
    return None
