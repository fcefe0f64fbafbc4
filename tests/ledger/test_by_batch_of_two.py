"""Tests two targets, each partitioned by batch: the rows of tries that lost are no part of either."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pytest

from lockstep.core.planning.decisions import Caller
from lockstep.core.staging import STAGING_SCHEMA
from lockstep.engine.sinks.staging_login import staging_dsn
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from simulation.scene import COMMITTED, told
from support.scenes.here import Here

TABLE = """create table public.{name} (id text, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal, _batch)) partition by list (_batch);
"""
LOST = """set role lockstep_stager; insert into {table} (_stream, _offset, _ordinal, _task, id, n)
    select _stream, _offset, _ordinal, 99, 'lost', -1 from {table} where _reason is null"""
VALUES = "select count(*), count(distinct (id, n)), bool_and(id = 'r' || n), count(distinct _batch) from public.{name}"


@pytest.mark.parametrize("loses", [("one",), ("two",), ("one", "two")], ids=" ".join)
def test_of_two_targets_only_the_winners_rows_become_partitions(drill, loses):
    names = ("one", "two")
    (drill.home / "drill" / "target.sql").write_text("".join(TABLE.format(name=name) for name in names))
    here = Here(drill)
    here.rewrite('target=Append("public.drill")', 'target=(Append("public.one"), Append("public.two"))')
    migrate_target(here.at.conn, here.folder)
    who = Caller("me")
    batch_id = plan(here.at.conn, here.at.broker, here.folder, who, datetime.now(UTC)).batch_id
    attempt = stage(here.at, here.engine, here.folder, batch_id, who)
    with closing(psycopg2.connect(staging_dsn(drill.dsn, attempt.stager))) as conn, conn, conn.cursor() as cur:
        for name in loses:
            cur.execute(LOST.format(table=f"{STAGING_SCHEMA}.{attempt.beside(names.index(name))}"))
    validate(here.at, here.folder, attempt)

    assert told(lambda: commit(here.at, here.folder, attempt)) == COMMITTED

    for name in names:
        assert drill.ask(VALUES.format(name=name)) == [(150, 150, True, 1)]
        assert drill.ask("select count(*) from pg_inherits where inhparent = %s::regclass", f"public.{name}") == [(1,)]
    here.at.close()
