from __future__ import annotations

import os
import threading
import time
from contextlib import closing, contextmanager

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import OWNER, connect, transaction
from lockstep.core.errors import Refusal
from lockstep.ledger.migrate import migrate_target
from support.fakes.ledger_rows import LedgerRows
from support.scenes.forged import KINDS, Contents


@pytest.fixture
def conn(database):
    conn = connect(database)
    yield conn
    conn.close()


@pytest.fixture
def ledger(conn):
    return LedgerRows(conn)


@pytest.fixture
def empty(servers):
    """Yields the DSN of a database in which nothing was migrated."""
    with servers.empty_database(f"empty_{os.getpid()}") as dsn:
        yield dsn


@pytest.fixture
def behind(database):
    """Returns another connection that holds locks while the block lasts, and a way to run something behind them."""

    @contextmanager
    def hold(statement: str, role: str = OWNER):
        other, answers, threads = connect(database), [], []

        def meanwhile(act):
            def answer() -> str:
                threads[0].join(20)
                return str(answers[0])

            def run() -> None:
                try:
                    answers.append(act())
                except Refusal as refusal:
                    answers.append(refusal)

            threads.append(threading.Thread(target=run))
            threads[0].start()
            _until_somebody_waits(database)
            return answer

        with transaction(other, role) as cur:
            cur.execute(statement)
            yield cur, meanwhile
        other.close()

    return hold


@pytest.fixture
def contents(drill):
    """Yields `contents(kind)`, which gives the drill such a target. `target_sql` replaces its table's definition."""
    opened = []

    def make(kind: str = "append", target_sql: str = "", schema: str = "id string, n int", more: str = "") -> Contents:
        target, table = KINDS[kind]
        folder = drill.home / "drill"
        (folder / "__init__.py").write_text(
            "from lockstep.core.pipeline.definition import *\n"
            f'PIPELINE = Pipeline("drill", "{drill.topic}", Json("{schema}"), {target}{more})\n'
        )
        (folder / "target.sql").write_text(target_sql or table)
        if kind == "several":
            (folder / "transform.py").write_text("def one(df):\n    return df\n\n\ndef other(df):\n    return df\n")
        with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute("set role lockstep_owner; drop table public.drill")
        here = Contents(drill)
        opened.append(here)
        migrate_target(here.at.conn, load("drill"))
        return here

    yield make
    for here in opened:
        here.at.close()


def _until_somebody_waits(database):
    watcher = connect(database)
    until = time.monotonic() + 10
    while True:
        with transaction(watcher, None) as cur:
            cur.execute(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            )
            if cur.fetchone()[0]:
                break
        assert time.monotonic() < until, "nobody ever waited"
        time.sleep(0.02)
    watcher.close()
