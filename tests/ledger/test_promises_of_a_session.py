"""Tests the promises of a ledger's connection, and statements that ours never contain."""

from __future__ import annotations

import re
import time
from contextlib import closing
from pathlib import Path

import psycopg2
import pyarrow as pa
import pytest

import lockstep
from lockstep.adapters import postgres as adapter
from lockstep.adapters.connection.dsn import staging_dsn
from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.core.errors import Refusal, Unreachable
from lockstep.dev.servers.postgres import remove_server, start
from lockstep.engine.sinks.session import copy_rows, staging_session
from support.scenes.here import Here

ENGINE = Path(lockstep.__file__).parent
SQL = "\n".join(path.read_text(encoding="utf-8") for path in ENGINE.rglob("*.sql")).lower()
# It asks about numbers of its own transaction alone, which no crash outlives.
OWN_TRANSACTION = re.compile(r"create function is_of_this_transaction\(its xid\).*?\nend \$\$;", re.DOTALL)
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


BOUNDS = ("statement_timeout", "transaction_timeout", "idle_session_timeout")


@pytest.fixture
def login(database, postgres):
    """Returns `login(setting, value)`, which gives the login its own setting, in this database alone."""
    superuser = postgres.rpartition("/")[0] + "/" + database.rpartition("/")[2]

    def give(setting: str, value: str) -> None:
        with closing(psycopg2.connect(superuser)) as conn, conn, conn.cursor() as cur:
            cur.execute("select from pg_settings where name = %s", (setting,))
            if not cur.rowcount:
                pytest.skip(f"this server has no {setting}: Postgres 17 and newer have it")
            cur.execute(f"alter role lockstep in database {database.rpartition('/')[2]} set {setting} = '{value}'")

    return give


@pytest.mark.parametrize("setting", BOUNDS)
def test_a_bound_of_the_login_does_not_cut_off_a_transaction_of_ours(database, login, setting):
    login(setting, "300ms")
    with closing(connect(database)) as conn:
        assert _slept(conn) == "slept"
        time.sleep(0.7)
        assert _slept(conn) == "slept"


def test_a_transaction_that_stages_is_not_cut_off_by_a_bound_of_the_login(database, login):
    login("transaction_timeout", "300ms")
    with staging_session(staging_dsn(database, "lockstep test")) as cur:
        cur.execute("select pg_sleep(0.7)")
        assert cur.fetchone() == ("",)


@pytest.mark.parametrize("from_", ["login", "address", "environment"])
def test_text_is_stored_as_it_is_whatever_encoding_the_client_is_said_to_have(database, login, monkeypatch, from_):
    text = "ä€\U0001f600"
    if from_ == "login":
        login("client_encoding", "LATIN1")
    elif from_ == "environment":
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    else:
        database = psycopg2.extensions.make_dsn(database, client_encoding="LATIN1")
    with staging_session(staging_dsn(database, "lockstep test")) as cur:
        cur.execute("create temp table t (v text)")
        copy_rows(cur, "pg_temp", "t", pa.RecordBatch.from_pydict({"v": [text]}))
        cur.execute("select encode(convert_to(v, 'UTF8'), 'hex') as bytes from t")
        assert bytes.fromhex(cur.fetchone()[0]).decode() == text
    with closing(connect(database)) as conn, transaction(conn, READER) as cur:
        cur.execute("select convert_from(decode(%s, 'hex'), 'UTF8')", (text.encode().hex(),))
        assert cur.fetchone()[0] == text


def test_floats_and_bytes_are_read_as_they_are_whatever_the_login_says(database, login):
    login("extra_float_digits", "0")
    login("bytea_output", "escape")
    asked = "select 0.1::float8 + 0.2::float8, jsonb_build_array(0.1::float8 + 0.2::float8, '\\x5c41'::bytea)::text"
    with closing(connect(database)) as conn, transaction(conn, READER) as cur:
        cur.execute(asked)
        assert tuple(cur.fetchone()) == (0.1 + 0.2, '[0.30000000000000004, "\\\\x5c41"]')
    with staging_session(staging_dsn(database, "lockstep test")) as cur:
        cur.execute(asked)
        assert cur.fetchone()[0] == 0.1 + 0.2


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_does_not_hold_every_text_is_refused(database, postgres, encoding):
    name = f"{database.rpartition('/')[2]}_other"
    with closing(psycopg2.connect(postgres)) as conn, closing(conn.cursor()) as cur:
        conn.autocommit = True
        cur.execute(f"create database {name} encoding '{encoding}' locale 'C' template template0")
        try:
            with pytest.raises(Refusal, match=rf"has the encoding {encoding}: .* every text") as refused:
                connect(f"{database.rpartition('/')[0]}/{name}")
        finally:
            cur.execute(f"drop database {name} with (force)")
    assert "encoding 'UTF8'" in str(refused.value)


def test_a_session_whose_triggers_do_not_run_is_refused(database, login):
    login("session_replication_role", "replica")
    with pytest.raises(Refusal, match="session_replication_role is replica: triggers and foreign keys"):
        connect(database)


@pytest.fixture
def own_server(tmp_path):
    """Yields a Postgres of this test alone. Its settings are not those of other tests."""
    try:
        yield start(tmp_path)
    finally:
        remove_server(tmp_path)


@pytest.mark.server
def test_a_reload_of_the_servers_settings_does_not_weaken_a_living_session(own_server):
    with closing(connect(own_server.dsn)) as conn, closing(psycopg2.connect(own_server.superuser_dsn)) as admin:
        admin.autocommit = True
        cur = admin.cursor()
        cur.execute("alter system set synchronous_commit = off")
        cur.execute("select pg_reload_conf()")
        with closing(psycopg2.connect(own_server.dsn)) as fresh:
            _until(fresh, "off")
        with conn, conn.cursor() as ours:
            ours.execute("show synchronous_commit")
            assert ours.fetchone() == ("on",)


def _slept(conn) -> str:
    """Returns True if a transaction may take longer than the login's bound, else the error."""
    try:
        with transaction(conn, READER) as cur:
            cur.execute("select pg_sleep(0.7)")
    except Refusal as refusal:
        return str(refusal)
    return "slept"


def _until(conn, value: str) -> None:
    """Waits until the reload has reached the sessions that take the server's setting."""
    for _ in range(200):
        with conn, conn.cursor() as cur:
            cur.execute("show synchronous_commit")
            if cur.fetchone() == (value,):
                return
        time.sleep(0.05)
    raise AssertionError(f"synchronous_commit is not {value}")


def test_a_statement_that_was_cancelled_is_told_as_that(database):
    said = "cancelled a statement: canceling statement due to statement timeout; nothing of its transaction was kept"
    with closing(connect(database)) as conn, pytest.raises(Unreachable, match=said), transaction(conn, READER) as cur:
        cur.execute("set local statement_timeout = '100ms'; select pg_sleep(2)")


@pytest.mark.parametrize("words", NEVER)
def test_what_no_statement_says(words):
    assert re.search(rf"{words}\b", OWN_TRANSACTION.sub("", SQL)) is None, NEVER[words]


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
    def cut(conn, _place):
        with conn, conn.cursor() as cur:
            cur.execute("select pg_terminate_backend(pg_backend_pid())")

    monkeypatch.setattr(adapter, "_assert_promises", cut)
    with pytest.raises(Unreachable, match="went away"):
        connect(database)
