"""Tests the login that executors stage with: it adds staged rows, and reads no table of the ledger and no target."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pytest
from psycopg2 import errors

from lockstep.adapters.connection.dsn import staging_dsn
from lockstep.adapters.connection.opened import open_stager
from lockstep.adapters.postgres import transaction
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.ledger.batch.commit import end_stagers
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from support.scenes.here import Here
from support.scenes.logins import MAKE_STAGER

BY_BATCH = """create table public.drill (id text, n int, _stream int4 not null, _offset int8 not null, _ordinal int4 not null,
    _batch int8 not null, primary key (_stream, _offset, _ordinal, _batch)) partition by list (_batch);"""
READABLE = """select n.nspname || '.' || c.relname, p.privilege from pg_class c join pg_namespace n on n.oid = c.relnamespace
    cross join unnest(array['select', 'update', 'delete', 'truncate', 'insert']) as p (privilege)
    where (n.nspname like 'lockstep%%' or n.nspname = 'public') and c.relkind in ('r', 'p', 'v', 'm')
      and has_table_privilege(%s, c.oid, p.privilege) order by 1, 2"""
FORGED = "insert into {table} (_stream, _offset, _ordinal, _task, id, n) values (%s, 0, 9, %s, 'forged', 1)"
MOVED = "insert into lockstep.commit (batch_id, stream_id, token, definition_hash) values (1, 1, 1, 'x')"


@pytest.fixture
def stager(drill, postgres):
    """Yields the DSN of a login that docs/clusters.md makes for executors."""
    login = f"stages_{re.sub(r'[^a-z0-9]', '_', drill.topic)}"
    own = psycopg2.extensions.parse_dsn(drill.dsn)["user"]
    with closing(psycopg2.connect(postgres)) as admin:
        admin.autocommit = True
        admin.cursor().execute(MAKE_STAGER.format(stager=login, run=own))
        yield re.sub(r"//[^@]+@", f"//{login}:...@", drill.dsn)
        admin.cursor().execute(f"drop role {login}")


def test_a_stagers_login_adds_staged_rows_and_can_read_or_change_nothing(drill, stager):
    with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner; drop table public.drill")
    (drill.home / "drill" / "target.sql").write_text(BY_BATCH)
    here, who = Here(drill), Caller("me")
    migrate_target(here.at.conn, here.folder)
    batch = plan(here.at.conn, here.at.broker, here.folder, who, datetime.now(UTC)).batch_id
    attempt = stage(here.at, here.engine, here.folder, batch, who)
    staged = f"lockstep_staging.{attempt.table}"

    with closing(open_stager(staging_dsn(stager, attempt.stager))) as conn:
        cur = conn.cursor()
        cur.execute(FORGED.format(table=staged), (1, 0))
        conn.rollback()
        for forbidden in (
            f"select * from {staged}",
            f"delete from {staged}",
            "select * from public.drill",
            "insert into public.drill default values",
            "select * from lockstep.source_manifest",
            "select * from lockstep.commit",
            MOVED,
            "update lockstep.stream set position = position",
            "create table lockstep_staging.mine (id int)",
            "create table public.mine (id int)",
            "set role lockstep_stager",
            "set role lockstep_reader",
            "select lockstep.attach_staged('public.drill', 'public.drill', 1, 1)",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                cur.execute(forbidden)
            conn.rollback()
        assert set(drill.ask(READABLE, "lockstep_executor")) == {
            ("lockstep.source_manifest", "insert"),
            (staged, "insert"),
        }

        validate(here.at, here.folder, attempt)
        commit(here.at, here.folder, attempt)  # the staged table is the batch's partition now
        with pytest.raises(errors.InsufficientPrivilege):
            cur.execute("insert into public.drill_1 (_stream, _offset, _ordinal) values (1, 0, 9)")
    assert drill.ask(READABLE, "lockstep_executor") == [("lockstep.source_manifest", "insert")]
    assert drill.violations() == []
    here.at.close()


def test_a_session_of_a_stagers_login_that_still_writes_is_ended(drill, stager):
    here, who = Here(drill), Caller("me")
    batch = plan(here.at.conn, here.at.broker, here.folder, who, datetime.now(UTC)).batch_id
    attempt = stage(here.at, here.engine, here.folder, batch, who)
    with closing(open_stager(staging_dsn(stager, attempt.stager))) as zombie:
        zombie.cursor().execute(FORGED.format(table=f"lockstep_staging.{attempt.table}"), (1, 99))
        with transaction(here.at.conn, None) as cur:
            end_stagers(cur, attempt.stager)
        with pytest.raises(psycopg2.OperationalError):
            zombie.cursor().execute("select 1")
    here.at.close()


def test_rows_that_a_stagers_login_forges_are_refused(drill, stager):
    here, who = Here(drill), Caller("me")
    batch = plan(here.at.conn, here.at.broker, here.folder, who, datetime.now(UTC)).batch_id
    attempt = stage(here.at, here.engine, here.folder, batch, who)
    with closing(open_stager(staging_dsn(stager, attempt.stager))) as conn, conn:
        (winner,) = drill.ask(f"select _stream, _task from lockstep_staging.{attempt.table} limit 1")
        conn.cursor().execute(FORGED.format(table=f"lockstep_staging.{attempt.table}"), winner)

    validate(here.at, here.folder, attempt)
    with pytest.raises(Refusal, match="staged"):
        commit(here.at, here.folder, attempt)

    assert drill.ask("select count(*) from public.drill") == [(0,)]
    here.at.close()
