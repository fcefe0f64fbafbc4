"""Tests a table by batch whose ranges become parts: tasks make them with their keys, and the commit attaches them."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pytest

from lockstep.adapters.postgres import READER, connect, snapshot
from lockstep.core.errors import BadData, Superseded
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.planning.decisions import Caller
from lockstep.core.proof.accounting import Digest, ManifestLine
from lockstep.core.staging import AttemptId
from lockstep.core.states import Lane, RangeEnd
from lockstep.engine.sinks.range_rows import RangeRows
from lockstep.ledger.migrate import migrate_target
from lockstep.ledger.proof.verify import ledger_checks
from lockstep.ledger.proof.verify_contents import CONTENTS_AS_COMMITTED, contents_checks
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.changes import decisions
from lockstep.steps.proof.verify import verify
from lockstep.steps.ranges.part_range import RangesInParts
from lockstep.steps.ranges.stage_once import next_route
from lockstep.steps.upkeep.reap import drop_empty_partitions, reap
from lockstep.targets.table import parts
from support.fakes.plain_engine import pieces
from support.scenes.here import ME, Here

TARGET = """create table public.drill (id {text}, n int{more}, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal, _batch)) partition by list (_batch);
    create index drill_id on public.drill (id, n desc) include (_offset);
"""
COUNTED = "select count(*), count(distinct (_stream, _offset)) from public.drill"
STAGED = "select count(*) from pg_tables where schemaname = 'lockstep_staging' and tablename ~ '_part_'"
ROUTE = "select route ->> 'because' from lockstep.attempt order by token desc limit 1"
LEAVES = "select relid::text from pg_partition_tree('public.drill') where isleaf order by 1"
SAME = "on public.drill for each row execute function public.same()"
KEYS = """select t.relid::text, array_agg(p.relname::text order by p.relname)
    from pg_partition_tree('public.drill') t join pg_index i on i.indrelid = t.relid
    join pg_inherits n on n.inhrelid = i.indexrelid join pg_inherits m on m.inhrelid = n.inhparent
    join pg_class p on p.oid = m.inhparent where t.level = 2 group by 1 order by 1"""


@pytest.fixture
def in_parts(drill, monkeypatch):
    """Yields `in_parts(text=..., more=...)`, which gives the drill such a target. A batch of any size is in parts."""
    monkeypatch.setattr(parts, "LEAST_OFFSETS", 0)
    opened = []

    def make(text: str = "text", more: str = "", then: str = "") -> Here:
        (drill.home / "drill" / "target.sql").write_text(TARGET.format(text=text, more=more) + then)
        with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute("set role lockstep_owner; drop table public.drill")
            cur.execute("create function public.same() returns trigger language plpgsql as 'begin return new; end'")
        here = Here(drill)
        opened.append(here)
        migrate_target(here.at.conn, here.folder)
        return here

    yield make
    for here in opened:
        here.at.close()


def staged(here: Here) -> AttemptId:
    """Does everything but the commit."""
    who = Caller("me", take_over=True)
    planned = plan(here.at.conn, here.at.broker, here.folder, who, datetime.now(UTC))
    assert planned.batch_id is not None, planned.decision
    attempt = stage(here.at, here.engine, here.folder, planned.batch_id, who)
    validate(here.at, here.folder, attempt)
    return attempt


def held(drill) -> None:
    assert drill.ask(COUNTED) == [(150, 150)]
    assert drill.ask("select bool_and(n = substr(id, 2)::int) from public.drill") == [(True,)]
    assert drill.ask(STAGED) == [(0,)]
    assert drill.violations() == []


def proven(here: Here, *, deep: bool = False) -> None:
    checks = verify(here.at.conn, here.at.broker, here.folder_as_run, deep=deep)
    assert [check for check in checks if not check.ok] == []


def task_of(here: Here, attempt: AttemptId) -> RangesInParts:
    """Returns what a task of the attempt is given."""
    ranges = {
        stream: StreamRange(stream, OffsetRange(TopicPartition(here.drill.topic, partition), begin, end))
        for stream, partition, begin, end in here.drill.ask(
            "select stream_id, partition, lower(offsets), upper(offsets) from lockstep.batch_range join lockstep.stream "
            "using (stream_id) where batch_id = %s", attempt.batch_id)
    }  # fmt: skip
    pipeline = here.folder.pipeline
    return RangesInParts(
        dsn=here.drill.dsn,
        broker=here.at.broker,
        pipeline=pipeline,
        attempt=attempt,
        lane=Lane.LIVE,
        ranges=ranges,
        columns=pipeline.columns,
        logs={},
        definition_hash="",
        log_starts={},
        epochs={},
        shown="public.drill",
    )


def test_parts_lie_beside_the_table_with_their_keys_until_the_commit_attaches_them(in_parts, drill):
    here = in_parts()
    attempt = staged(here)
    made = drill.ask("select relation::int, relation::regclass::text from lockstep.part order by stream_id")
    filenodes = """select relfilenode from pg_class where oid = any(%s)
        or oid in (select indexrelid from pg_index where indrelid = any(%s)) order by oid"""
    oids = [oid for oid, _ in made]
    built = drill.ask(filenodes, oids, oids)
    assert (len(made), len(built)) == (3, 9)
    assert drill.ask(COUNTED) == [(0, 0)]
    commit(here.at, here.folder, attempt)
    assert drill.ask(LEAVES) == [(f"drill_1_part_{n}",) for n in (1, 2, 3)]
    assert drill.ask(filenodes, oids, oids) == built  # nothing was copied, and no key was built
    assert drill.ask(KEYS) == [(f"drill_1_part_{n}", ["drill_id", "drill_pkey"]) for n in (1, 2, 3)]
    assert "each range becomes a part of public.drill" in drill.ask(ROUTE)[0][0]
    held(drill)
    proven(here, deep=True)
    assert reap(here.at.conn).dropped == (attempt.table,)


def test_a_new_attempt_ends_a_task_of_the_older_one_that_still_has_its_session(in_parts, drill):
    """It may hold a part's lock, which the new attempt's task of the same range would wait for."""
    here = in_parts()
    attempt = staged(here)
    with task_of(here, attempt).session():
        ((pid,),) = drill.ask("select pid from lockstep.task_backend order by backend_start desc limit 1")
        assert drill.ask("select count(*) from pg_stat_activity where pid = %s", pid) == [(1,)]
        again = staged(here)
        assert drill.ask("select count(*) from pg_stat_activity where pid = %s", pid) == [(0,)]
    assert (again.batch_id, again.token) == (attempt.batch_id, attempt.token + 1)
    commit(here.at, here.folder, again)
    assert (drill.ask(COUNTED), drill.violations()) == ([(150, 150)], [])


@pytest.mark.long
def test_nobody_who_runs_may_touch_a_closed_part(in_parts, drill):
    here = in_parts()
    attempt = staged(here)
    part = drill.ask("select min(relation::regclass::text) from lockstep.part")[0][0]
    for role, statement in (
        ("lockstep_partition", f"insert into {part} select * from {part}"),
        ("lockstep_partition", f"delete from {part}"),
        ("lockstep_stager", f"insert into {part} select * from {part}"),
        ("lockstep_reader", f"select from {part}"),
    ):
        with closing(psycopg2.connect(drill.dsn)) as conn, conn.cursor() as cur:
            cur.execute(f"set role {role}")
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cur.execute(statement)
    commit(here.at, here.folder, attempt)
    owners = """select distinct relowner::regrole::text, relacl is null or relacl::text !~ 'lockstep_partition'
        from pg_class where relname ~ '^drill_1_part' and relkind = 'r'"""
    assert drill.ask(owners) == [("lockstep_targets", True)]
    held(drill)


@pytest.mark.long
def test_a_range_without_rows_has_no_part_and_one_part_is_the_partition(in_parts, drill, produce):
    here = in_parts()
    here.drain()
    produce(drill.topic, [("k", '{"id": "r150", "n": 150}')])
    here.drain()
    assert drill.ask("select relkind, relname from pg_class where relname ~ '^drill_2' and relkind in ('r', 'p')") == [
        ("r", "drill_2")
    ]
    here.rewrite('target=Append("public.drill"),', 'target=Append("public.drill"), max_reject_share=1.0,')
    produce(drill.topic, [("k", "{no json")])
    here.drain()
    assert drill.ask("select batch_id, count(*)::int from lockstep.part group by 1 order by 1") == [(1, 3), (2, 1)]
    assert drill.ask(COUNTED) == [(151, 151)]
    proven(here)


@pytest.mark.long
def test_checks_of_the_table_hold_for_parts(in_parts, drill, produce):
    here = in_parts(more=", check (n >= 0)")
    here.drain()
    assert len(drill.ask(LEAVES)) == 3
    held(drill)
    produce(drill.topic, [("k", '{"id": "below", "n": -1}')])
    with pytest.raises(BadData, match=r"public\.drill refuses the rows .*drill_n_check"):
        here.drain()
    held(drill)


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ({"text": "varchar(20)"}, "a column needs a cast"),
        ({"more": ", at timestamptz default now()"}, "the table has columns that are not decoded"),
        ({"then": f"create trigger same before insert {SAME};"}, "the table has triggers"),
        ({"then": "create index lower on public.drill (lower(id));"}, "an index has an expression or a condition"),
        ({"then": "create table public.ids (n int primary key); insert into public.ids select generate_series(0, 200); "
            "alter table public.drill add foreign key (n) references public.ids;"}, "the table has foreign keys"),
    ],
    ids=["another type", "a default", "a trigger", "an expression", "a foreign key"],
)  # fmt: skip
def test_a_table_that_tasks_cannot_make_parts_of_goes_its_old_way(in_parts, drill, shape, why):
    in_parts(**shape).drain()
    assert why in drill.ask(ROUTE)[0][0]
    assert drill.ask(LEAVES) == [("drill_1",)]
    held(drill)


@pytest.mark.long
def test_a_small_batch_is_staged_and_the_route_says_so_beforehand(in_parts, drill, monkeypatch):
    here = in_parts()
    said = next_route(here.at, here.engine, here.folder, ()).because
    assert said == "a reader of the tests; each range becomes a part of public.drill, and the commit attaches them"
    monkeypatch.setattr(parts, "LEAST_OFFSETS", 151)
    assert "fewer than 151 offsets" in next_route(here.at, here.engine, here.folder, ()).because
    here.drain()
    assert drill.ask(ROUTE)[0][0].endswith(
        "rows are staged for public.drill, and attached by the commit: fewer than 151 offsets are one table's"
    )
    assert drill.ask(LEAVES) == [("drill_1",)]
    held(drill)


def test_what_a_dead_attempt_has_made_is_never_attached_and_reap_drops_it(in_parts, drill):
    here = in_parts()
    here.code = lambda value: value | {"n": 0}
    lost = staged(here)
    here.code = lambda value: value
    newer = staged(here)
    assert drill.ask(STAGED) == [(6,)]
    commit(here.at, here.folder, newer)
    left = {lost.table, newer.table, *(f"{lost.table}_part_{n}" for n in (1, 2, 3))}
    assert set(reap(here.at.conn).dropped) == left
    held(drill)
    proven(here)


@pytest.mark.long
def test_parts_of_an_abandoned_batch_are_dropped(in_parts, drill):
    here = in_parts()
    decisions.abandon(here.at.conn, staged(here).batch_id, ME)
    reap(here.at.conn)
    assert drill.ask(STAGED) == [(0,)]
    here.drain()
    held(drill)


@pytest.mark.long
def test_a_second_try_of_a_task_finds_the_part_of_the_first(in_parts, drill):
    here = in_parts()
    attempt = staged(here)
    with task_of(here, attempt).session() as session:
        for stream in task_of(here, attempt).ranges:
            assert session.is_committed(stream)
            assert session.commit(ManifestLine(7, stream, 0, 0, 0, 0, 0, Digest())).what == RangeEnd.FOUND
    commit(here.at, here.folder, attempt)
    held(drill)


@pytest.mark.long
def test_a_zombie_behind_a_newer_attempt_leaves_no_part(in_parts, drill):
    here = in_parts()
    assert drill.run(fault="stage.session_up=kill") == {"killed": "SIGKILL"}
    ((token, nonce),) = drill.ask("select token, nonce::text from lockstep.batch")
    zombie = task_of(here, AttemptId(1, token, nonce))
    newer = staged(here)
    stream = min(zombie.ranges)
    fields = (stream, 0, 0, 7, "2026-05-01T12:00:00+00:00", "false", *["\\N"] * 4, "r0", "0")
    (rows,) = pieces("\t".join(map(str, fields)) + "\n", zombie.columns, 1)
    with zombie.session() as session:
        made = RangeRows(session, stream, 1)
        made.take(rows)
        with pytest.raises(Superseded, match=f"attempt {token} of batch 1 may not commit"):
            made.commit(ManifestLine(7, stream, 1, 1, 0, 1, 1, Digest(1, 0, 0), 0, 0))
    assert drill.ask("select count(*) from lockstep.part where token = %s", token) == [(0,)]
    commit(here.at, here.folder, newer)
    held(drill)


@pytest.mark.long
def test_rejects_are_told_with_the_commit(in_parts, drill, produce):
    here = in_parts()
    produce(drill.topic, [("k", "{no json")])
    here.rewrite('target=Append("public.drill"),', 'target=Append("public.drill"), max_reject_share=0.5,')
    attempt = staged(here)
    assert drill.ask("select count(*) from lockstep.reject") == [(0,)]
    commit(here.at, here.folder, attempt)
    assert drill.ask("select reason, batch_id from lockstep.reject") == [
        ("not JSON: JSONDecodeError", attempt.batch_id)
    ]
    held(drill)


@pytest.mark.long
def test_a_replay_takes_rows_out_of_parts_and_empty_ones_go(in_parts, drill):
    here = in_parts()
    here.drain()
    here.code = lambda value: value | {"n": value["n"] * 2}
    assert "changed" in str(here.preview("replay", "0:5", "0:15"))
    here.replay("0:5", "0:15")
    assert "a replay moves rows of several batches" in drill.ask(ROUTE)[0][0]
    replaced = "select bool_and(n = 2 * substr(id, 2)::int), count(*) > 9 from public.drill where _batch > 1"
    assert drill.ask(replaced) == [(True, True)]
    proven(here)
    here.replay()
    assert "public.drill_1" in drop_empty_partitions(here.at.conn).dropped
    assert drill.ask("select count(*) from pg_class where relname ~ '^drill_1'") == [(0,)]
    assert drill.ask(COUNTED) == [(150, 150)]
    proven(here)


@pytest.mark.long
def test_a_fill_makes_parts_as_well(in_parts, drill):
    here = in_parts()
    here.run()  # opens the streams
    here.skip()
    here.fill()
    assert len(drill.ask(LEAVES)) == 3
    held(drill)


@pytest.mark.long
def test_a_row_that_is_changed_in_a_part_is_named_by_verify(in_parts, drill):
    here = in_parts()
    here.drain()
    drill.ask("update public.drill set n = -1 where id = 'r7' returning 1")
    checks = verify(here.at.conn, here.at.broker, here.folder, deep=False)
    assert [check.name for check in checks if not check.ok] == [CONTENTS_AS_COMMITTED]


@pytest.mark.long
def test_who_looked_before_a_part_was_made_is_not_alarmed_by_its_rows(in_parts, drill):
    """Frozen rows are seen by every snapshot once they are attached."""
    here = in_parts()
    with closing(connect(drill.dsn)) as conn, snapshot(conn, READER) as cur:
        cur.execute("select count(*) from lockstep.batch")
        assert cur.fetchone() == (0,)
        here.drain()
        cur.execute(
            "select (select count(*) from public.drill) as rows, (select count(*) from lockstep.commit) as commits"
        )
        assert cur.fetchone() == (150, 0)
        assert [check for check in ledger_checks(cur, here.folder.pipeline) if not check.ok] == []
        assert all(check.ok for check in contents_checks(cur, here.folder.pipeline))
    held(drill)


@pytest.mark.long
def test_an_index_that_comes_between_is_built_by_the_commit(in_parts, drill):
    here = in_parts()
    attempt = staged(here)
    drill.ask("set role lockstep_targets; create index more on public.drill (n); select 1")
    commit(here.at, here.folder, attempt)
    assert drill.ask("select count(*) from pg_indexes where tablename ~ '^drill_1_part'") == [(9,)]
    held(drill)
