"""What a ledger's connection must promise, and what no statement of ours ever says."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

import lockstep
from here import Here
from lockstep.adapters import postgres
from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.core.errors import Refusal, Unreachable

ENGINE = Path(lockstep.__file__).parent
SQL = "\n".join(path.read_text(encoding="utf-8") for path in ENGINE.rglob("*.sql")).lower()
NEVER = {
    "prepare transaction": "a transaction that outlives its connection holds its locks for ever",
    "pg_advisory_lock": "a session's lock is lost behind a pooler",
    "create unlogged": "what is not logged comes back empty after a crash",
    "txid_status": "a transaction id is used again after a crash",
    "pg_xact_status": "the same",
}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("synchronous_commit=off", "synchronous_commit is off"),
        ("default_transaction_isolation=serializable", "committed"),
    ],
)
def test_a_session_that_promises_less_is_refused(database, setting, said):
    weaker = psycopg2.extensions.make_dsn(database, options=f"-c {setting}")
    with pytest.raises(Refusal, match=said):
        connect(weaker)


@pytest.mark.parametrize("words", NEVER)
def test_what_no_statement_says(words):
    assert re.search(rf"{words}\b", SQL) is None, NEVER[words]


def test_a_staging_table_is_logged(drill):
    here, kinds = Here(drill), []

    def look(value):
        kinds.append(
            drill.ask("select relpersistence from pg_class where relnamespace = 'lockstep_staging'::regnamespace")
        )
        return value

    here.code = look
    here.run()
    here.at.close()

    assert set(kinds[0]) == {("p",)}
    assert drill.violations() == []


def test_a_transaction_that_is_left_alone_is_ended_by_the_server(database):
    with closing(connect(database)) as conn, transaction(conn, READER) as cur:
        cur.execute("show idle_in_transaction_session_timeout")
        assert cur.fetchone() == ("5s",)


def test_a_connection_that_is_lost_while_its_settings_are_asked_for_is_one_line(database, monkeypatch):
    def cut(conn):
        with conn, conn.cursor() as cur:
            cur.execute("select pg_terminate_backend(pg_backend_pid())")

    monkeypatch.setattr(postgres, "_assert_promises", cut)
    with pytest.raises(Unreachable, match="went away"):
        connect(database)
