from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from ledger_rows import LedgerRows
from lockstep.adapters.postgres import OWNER, connect, transaction
from lockstep.core.errors import Refusal


@pytest.fixture
def conn(database):
    conn = connect(database)
    yield conn
    conn.close()


@pytest.fixture
def ledger(conn):
    return LedgerRows(conn)


@pytest.fixture
def behind(database):
    """Another connection that holds locks for as long as the block lasts, and a way to run something behind them."""

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
