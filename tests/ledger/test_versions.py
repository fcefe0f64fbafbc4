"""Tests the version of the ledger: each lock that decides compares it with the code's, and so does the database."""

from __future__ import annotations

import re
from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters.postgres import OWNER, PLANNER, connect, transaction
from lockstep.core.errors import WrongVersion
from lockstep.ledger import migrate
from lockstep.ledger.batch import attempts, plan, ranges
from lockstep.ledger.migrate import known_migrations
from lockstep.ledger_version import LEDGER_VERSION_SETTING, ledger_version


def test_the_version_is_that_of_the_newest_migration():
    assert ledger_version() == known_migrations()[-1].version


@pytest.fixture
def older(servers, monkeypatch):
    """Yields a ledger that only the migrations before the newest one were applied to."""
    server = servers.postgres()
    with closing(psycopg2.connect(server.superuser_dsn)) as admin:
        admin.autocommit = True
        admin.cursor().execute("drop database if exists older_one with (force)")
        admin.cursor().execute("create database older_one owner lockstep")
        dsn = re.sub(r"/\w+$", "/older_one", server.dsn)
        with closing(connect(dsn)) as conn, monkeypatch.context() as less:
            files = known_migrations()[:-1]
            less.setattr(migrate, "known_migrations", lambda: files)
            migrate.migrate(conn)
        yield dsn
        admin.cursor().execute("drop database older_one with (force)")


def test_new_code_meets_an_older_ledger_and_names_both_versions_and_the_command(older):
    version = known_migrations()[-2].version
    said = rf"the ledger is at version {version}, this code needs {ledger_version()}"
    with closing(connect(older)) as conn:
        with pytest.raises(WrongVersion, match=said) as refused:
            migrate.require_migrated(conn)
        with pytest.raises(WrongVersion, match=said), transaction(conn, PLANNER) as cur:
            plan.lock_pipeline(cur, "house")
    assert refused.value.next_command == "lockstep migrate"


def test_each_lock_that_decides_asks_for_the_version(ledger, conn):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    attempt = attempts.AttemptId(batch, ledger.opened(batch))
    ledger.ask("delete from lockstep.migration where version = %(v)s returning 1", v=ledger_version())
    locks = [
        lambda cur: plan.lock_pipeline(cur, "orders"),
        lambda cur: attempts.lock_batch(cur, batch),
        lambda cur: ranges.require_newest_of_range(cur, attempt),
    ]
    for lock in locks:
        with pytest.raises(WrongVersion, match="this code needs"), transaction(conn, PLANNER) as cur:
            lock(cur)


# The first statement of a client of another version, at each of its steps.
WRITES = {
    "batch": lambda ledger, at: ledger.planned({at["s"]: (10, 20)}),
    "request": lambda ledger, at: ledger.planned({at["s"]: (0, 10)}, lane="replay"),
    "attempt": lambda ledger, at: ledger.opened(at["b"]),
    "commit": lambda ledger, at: ledger.committed(at["b"], at["t"]),
    "verdict": lambda ledger, at: ledger.ask(
        "insert into lockstep.verdict (batch_id, token, definition_hash, success, result)"
        " values (%(b)s, %(t)s, 'd1', true, '{}') returning 1",
        **at,
    ),
    "decision": lambda ledger, _: ledger.ask(
        "insert into lockstep.decision (pipeline, kind, who, why) values ('orders', 'pause', 'me', 'x') returning 1"
    ),
    "coverage": lambda ledger, at: ledger.covered(at["s"], 0, 10, "skipped"),
}


UPDATE, MIGRATE = "update lockstep on this machine", "run lockstep migrate"


@pytest.mark.parametrize(
    ("made_for", "remedy"), [("", UPDATE), ("16", UPDATE), ("9999", MIGRATE)], ids=["", "16", "9999"]
)
@pytest.mark.parametrize("table", WRITES)
def test_the_database_refuses_what_code_of_another_version_writes(ledger, conn, table, made_for, remedy):
    stream = ledger.stream(0)
    batch = ledger.planned({stream: (0, 10)})
    at = {"s": stream, "b": batch, "t": ledger.opened(batch)}
    if table == "batch":
        ledger.committed(batch, at["t"])
    with transaction(conn, OWNER) as cur:
        cur.execute("select set_config(%s, %s, false)", (LEDGER_VERSION_SETTING, made_for))

    code = made_for or "a version below 19"
    said = f"one_version: the ledger is at version {ledger_version()}, this code is made for {code}: "
    with pytest.raises(psycopg2.errors.CheckViolation, match=said + remedy) as refused:
        WRITES[table](ledger, at)
    assert refused.value.diag.constraint_name == "one_version"
