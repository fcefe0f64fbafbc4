"""Tests a target whose rows are written once: a view hides them from everybody until their batch is committed."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import psycopg2
import pytest

from lockstep.adapters.postgres import COMMITTER, READER, connect, transaction
from lockstep.core.errors import Refusal, Superseded
from lockstep.core.planning.decisions import Caller
from lockstep.core.staging import AttemptId
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.proof.verify import verify
from support.scenes.here import Here

TARGET = """create table if not exists public.drill_rows (id {text}, n int{more}, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));
"""
COUNTED = "select count(*), count(distinct (_stream, _offset)) from public.drill"
BEHIND = COUNTED.replace("public.drill", "public.drill_rows")
HIDDEN = "select batch_id, rows_table from lockstep.hidden_batch"
ROUTE = "select route ->> 'because' from lockstep.attempt order by token desc limit 1"


@pytest.fixture
def once(drill):
    """Yields `once(text=..., more=...)`, which gives the drill such a target."""
    opened = []

    def make(text: str = "text", more: str = "", then: str = "") -> Here:
        (drill.home / "drill" / "target.sql").write_text(TARGET.format(text=text, more=more) + then)
        with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute("set role lockstep_owner; drop table public.drill")
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
    attempt = stage(here.at, here.engine, here.folder, planned.batch_id, who)
    validate(here.at, here.folder, attempt)
    return attempt


def held(drill) -> None:
    assert drill.ask(COUNTED) == [(150, 150)]
    assert drill.ask(HIDDEN) == []
    assert drill.violations() == []


def test_rows_are_there_before_the_commit_and_seen_from_it_on(once, drill):
    here = once()
    attempt = staged(here)
    assert drill.ask(BEHIND) == [(150, 150)]
    assert drill.ask(COUNTED) == [(0, 0)]
    assert drill.ask(HIDDEN) == [(attempt.batch_id, "public.drill_rows")]
    commit(here.at, here.folder, attempt)
    held(drill)
    assert "written once, into public.drill_rows" in drill.ask(ROUTE)[0][0]
    assert all(check.ok for check in verify(here.at.conn, here.at.broker, here.folder, deep=True))
