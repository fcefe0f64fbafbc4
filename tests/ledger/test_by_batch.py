"""Tests a target partitioned by batch: staged rows become the batch's partition, or are inserted if they may not."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pytest

from lockstep.adapters.connection.dsn import staging_dsn
from lockstep.adapters.connection.opened import open_stager
from lockstep.adapters.postgres import COMMITTER, READER, STAGER, connect, transaction
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.core.staging import STAGING_SCHEMA, AttemptId
from lockstep.ledger.migrate import migrate_target
from lockstep.ledger.proof.verify import ledger_checks
from lockstep.ledger.proof.verify_contents import CONTENTS_AS_COMMITTED, contents_checks
from lockstep.steps.batch import commit_batch as committing
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.proof.verify import verify
from lockstep.steps.upkeep.reap import Reaped, drop_empty_partitions, reap
from support.scenes.here import Here

TARGET = """create table public.drill (id {text}, n int{more}, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key ({key})) partition by list (_batch);
"""
KEY = "_stream, _offset, _ordinal, _batch"
# Staged columns that the target lacks were dropped before the attachment. A table for inserts never had them.
PARTITIONS = """select c.relname, exists (select from pg_attribute a where a.attrelid = c.oid and a.attisdropped) as attached
    from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'public.drill'::regclass order by c.oid"""
LOSING = """set role lockstep_stager; insert into {table} (_stream, _offset, _ordinal, _task, id)
    select _stream, _offset, _ordinal + 1, 99, 'lost' from {table} where _reason is null"""
MERGED = """set role lockstep_owner;
create table public.drill_old (like public.drill);
insert into public.drill_old select * from public.drill where _batch in (1, 2);
drop table public.drill_1, public.drill_2;
alter table public.drill attach partition public.drill_old for values in (1, 2)"""
COUNTED = "select count(*), count(distinct (_stream, _offset)), count(distinct _batch) from public.drill"


@pytest.fixture
def by_batch(drill):
    """Yields `by_batch(text=..., more=..., key=...)`, which gives the drill such a target."""
    opened = []

    def make(text: str = "text", more: str = "", key: str = KEY, then: str = "") -> Here:
        (drill.home / "drill" / "target.sql").write_text(TARGET.format(text=text, more=more, key=key) + then)
        with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute("set role lockstep_owner; drop table public.drill")
            cur.execute("create function public.same() returns trigger language plpgsql as 'begin return new; end'")
            cur.execute("grant execute on function public.same() to lockstep_targets")
        here = Here(drill)
        opened.append(here)
        migrate_target(here.at.conn, here.folder)
        return here

    yield make
    for here in opened:
        here.at.close()


def staged(here: Here) -> AttemptId:
    """Does everything but the commit."""
    who = Caller("me")
    planned = plan(here.at.conn, here.at.broker, here.folder, who, datetime.now(UTC))
    attempt = stage(here.at, here.engine, here.folder, planned.batch_id, who)
    validate(here.at, here.folder, attempt)
    return attempt


def held(drill) -> None:
    assert drill.ask(COUNTED)[0][:2] == (150, 150)
    assert drill.violations() == []


def test_the_staged_rows_become_the_batchs_partition(by_batch, drill, produce):
    here = by_batch()
    here.drain()
    produce(drill.topic, [("k", '{"id": "later", "n": 1}')])
    here.drain()
    assert drill.ask(PARTITIONS) == [("drill_1", True), ("drill_2", True)]
    assert drill.ask("select count(*) from public.drill where id = 'later' and _batch = 2") == [(1,)]
    assert drill.violations() == []
    assert reap(here.at.conn).dropped == ()
    assert all(check.ok for check in verify(here.at.conn, here.at.broker, here.folder, deep=True))


def test_nobody_who_stages_may_write_what_was_attached(by_batch, drill):
    by_batch().drain()
    assert drill.ask("select relowner::regrole::text from pg_class where oid = 'public.drill_1'::regclass") == [
        ("lockstep_targets",)
    ]
    for statement in ("insert into public.drill_1 default values", "drop table public.drill_1"):
        with closing(psycopg2.connect(drill.dsn)) as conn, conn.cursor() as cur:
            cur.execute("set role lockstep_stager")
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cur.execute(statement)


@pytest.mark.parametrize(
    "shape",
    [
        {"text": "varchar(20)"},
        {"more": ", at timestamptz default now()"},
        {"more": ", check (n >= 0)"},
        {"more": ", twice int generated always as (n * 2) stored"},
        {"then": "create trigger same before insert on public.drill for each row execute function public.same();"},
    ],
    ids=" ".join,
)
def test_a_table_that_only_insert_can_fill_has_its_partitions_filled(by_batch, drill, shape):
    by_batch(**shape).drain()
    assert drill.ask(PARTITIONS) == [("drill_1", False)]
    held(drill)


def test_rejects_and_the_rows_of_losing_tries_are_no_part_of_it(by_batch, drill, produce):
    here = by_batch()
    produce(drill.topic, [("k", "{no json")])
    here.rewrite('target=Append("public.drill"),', 'target=Append("public.drill"), max_reject_share=0.5,')
    attempt = staged(here)
    with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(LOSING.format(table=f"{STAGING_SCHEMA}.{attempt.table}"))
    commit(here.at, here.folder, attempt)
    assert drill.ask(PARTITIONS) == [("drill_1", True)]
    assert drill.ask("select count(*) from lockstep.reject") == [(1,)]
    assert drill.ask("select count(*) from public.drill where id = 'lost'") == [(0,)]
    held(drill)


def test_a_replay_has_a_partition_of_its_own_and_leaves_none_of_the_old_rows(by_batch, drill):
    here = by_batch()
    here.drain()
    here.code = lambda value: value | {"n": value["n"] * 2}
    reports = here.replay("0:5", "0:15")
    assert reports[0].went_on
    held(drill)
    assert drill.ask(PARTITIONS) == [("drill_1", True), ("drill_2", True)]
    assert drill.ask("select bool_and(n = 2 * substr(id, 2)::int) from public.drill where _batch = 2") == [(True,)]


def test_a_reader_does_not_hold_up_a_commit_that_makes_a_partition(by_batch, drill, monkeypatch):
    monkeypatch.setattr(committing, "COMMIT_LOCK_SECONDS", 0.5)
    here = by_batch(more=", check (n >= 0)")  # filled by insert, into a partition made for the batch
    attempt = staged(here)
    with closing(psycopg2.connect(drill.dsn)) as reader:
        reader.cursor().execute("set role lockstep_reader; select count(*) from public.drill")
        try:
            commit(here.at, here.folder, attempt)
        except Refusal as refusal:
            pytest.fail(str(refusal))
    assert drill.ask(PARTITIONS) == [("drill_1", False)]
    held(drill)


def test_a_partition_that_a_replay_has_emptied_goes_once_no_reader_is_in_the_way(by_batch, drill):
    here = by_batch()
    here.drain()
    here.code = lambda value: value | {"n": value["n"] * 2}
    here.replay()
    with closing(psycopg2.connect(drill.dsn)) as reader:
        reader.cursor().execute("set role lockstep_reader; select count(*) from public.drill")
        assert drop_empty_partitions(here.at.conn) == Reaped((), ("public.drill_1",))
    held(drill)

    assert drop_empty_partitions(here.at.conn) == Reaped(("public.drill_1",), ())

    assert drill.ask(PARTITIONS) == [("drill_2", True)]
    assert drill.ask("select count(*), bool_and(n = 2 * substr(id, 2)::int) from public.drill") == [(150, True)]
    held(drill)


def test_a_partition_stays_while_it_holds_a_row_or_its_batch_owns_offsets(by_batch, drill):
    here = by_batch()
    here.drain()
    here.replay("0:5", "0:15")
    assert drop_empty_partitions(here.at.conn) == Reaped((), ())
    with transaction(here.at.conn, COMMITTER) as cur:
        for target, part in (("drill", "drill_1"), ("drill", "drill_2"), ("drill", "drill"), ("drill_1", "drill_2")):
            cur.execute("select lockstep.drop_replaced_partition(%s, %s)", (f"public.{target}", f"public.{part}"))
            assert cur.fetchone() == (False,)
    here.replay()
    drill.ask(
        "insert into public.drill (id, n, _stream, _offset, _ordinal, _batch) values ('mine', 1, 1, 9999, 0, 1) returning 1"
    )
    assert "drill_1" not in drop_empty_partitions(here.at.conn).dropped
    assert drill.ask("select count(*) from public.drill where id = 'mine'") == [(1,)]


def test_partitions_of_old_batches_may_be_merged(by_batch, drill, produce):
    here = by_batch()
    here.drain()
    produce(drill.topic, [("k", '{"id": "r150", "n": 150}')])
    here.drain()
    with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(MERGED)
    assert drill.ask("select count(*) from public.drill_old") == [(151,)]
    assert all(check.ok for check in verify(here.at.conn, here.at.broker, here.folder, deep=True))
    here.code = lambda value: value | {"n": value["n"] * 2}
    here.replay()
    assert drill.ask("select count(*) from public.drill_old") == [(0,)]
    assert drill.ask("select count(*), bool_and(n = 2 * substr(id, 2)::int) from public.drill") == [(151, True)]
    assert drill.violations() == []


def test_a_preview_shows_the_difference_and_leaves_no_partition(by_batch, drill):
    here = by_batch()
    here.drain()
    here.code = lambda value: value | {"n": value["n"] + 1}
    shown = here.preview("replay", "0:5", "0:15")
    assert "changed" in str(shown)
    assert drill.ask(PARTITIONS) == [("drill_1", True)]
    held(drill)


def test_who_still_writes_into_the_staging_table_is_ended(by_batch, drill, monkeypatch):
    monkeypatch.setattr(committing, "COMMIT_LOCK_SECONDS", 0.5)
    here = by_batch()
    attempt = staged(here)
    with closing(open_stager(staging_dsn(drill.dsn, attempt.stager))) as zombie:
        zombie.cursor().execute(LOSING.format(table=f"{STAGING_SCHEMA}.{attempt.table}"))
        commit(here.at, here.folder, attempt)
        with pytest.raises(psycopg2.OperationalError):
            zombie.cursor().execute("select 1")
    held(drill)


def test_who_looked_before_a_partition_came_is_not_alarmed_by_its_rows(by_batch, drill):
    """Its rows were committed when they were staged. A snapshot from then shows them, and not yet the batch."""
    here = by_batch()
    with closing(connect(drill.dsn)) as conn, transaction(conn, READER) as cur:
        cur.execute("select count(*) from lockstep.batch")
        assert cur.fetchone() == (0,)
        before = staged(here)
        cur.execute("rollback; begin isolation level repeatable read; select 1 from lockstep.batch")
        commit(here.at, here.folder, before)
        cur.execute("select count(*) from public.drill")
        assert cur.fetchone() == (150,)
        assert [check for check in ledger_checks(cur, here.folder.pipeline) if not check.ok] == []
        assert all(check.ok for check in contents_checks(cur, here.folder.pipeline))
    drill.ask("update public.drill set _offset = _offset + 10000 where id = 'r3' returning 1")
    checks = verify(here.at.conn, here.at.broker, here.folder, deep=False)
    assert [check.name for check in checks if not check.ok] == ["every row is its batch's", CONTENTS_AS_COMMITTED]


def test_only_the_newest_attempt_attaches_and_only_what_it_has_staged(by_batch, drill):
    here = by_batch()
    attempt = staged(here)
    its = f"{STAGING_SCHEMA}.{attempt.table}"
    others = f"{STAGING_SCHEMA}.attempt_77_77_x"  # as plain as its own
    with transaction(here.at.conn, STAGER) as cur:
        cur.execute(f"create table {others} (like {its})")
    for table, batch, token, why in (
        (others, attempt.batch_id, attempt.token, "own_staging"),
        (its, attempt.batch_id, attempt.token + 1, "newest_attempt"),
        (its, attempt.batch_id + 1, attempt.token, "newest_attempt"),
        ("public.drill", attempt.batch_id, attempt.token, "own_staging"),
    ):
        refused = None
        try:
            with transaction(here.at.conn, COMMITTER) as cur:
                cur.execute("select lockstep.attach_staged('public.drill', %s, %s, %s)", (table, batch, token))
        except psycopg2.DatabaseError as error:
            refused = error.diag.constraint_name
        assert refused == why, (table, batch, token)
    assert drill.ask(PARTITIONS) == []


@pytest.mark.parametrize(
    ("shape", "guarantee", "said"),
    [
        ({"key": "_batch, _offset"}, "PerBatch", r"no unique index on \(_batch, _offset, _ordinal, _stream\)"),
        ({}, "PerPartition", "partitioned by _batch, and only PerBatch commits a batch as a whole"),
    ],
    ids=["another key", "per partition"],
)
def test_a_table_that_cannot_be_filled_so_is_refused_before_anything_is_read(by_batch, drill, shape, guarantee, said):
    here = by_batch(**shape)
    here.rewrite("import Append,", f"import {guarantee}, Append,")
    here.rewrite("limits=", f"guarantee={guarantee}(), limits=")
    with pytest.raises(Refusal, match=said):
        here.run()
    assert drill.ask("select count(*) from lockstep.attempt where state <> 'failed'") == [(0,)]
