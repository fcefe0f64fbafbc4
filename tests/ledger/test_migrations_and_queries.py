from __future__ import annotations

import re
import threading
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import psycopg2
import pytest

import lockstep
from lockstep.adapters.postgres import OWNER, connect, transaction
from lockstep.core.errors import Refusal
from lockstep.ledger.migrate import known, migrate, require_migrated
from lockstep.ledger.queries import queries

ENGINE = Path(lockstep.__file__).parent
SUBJECTS = sorted(
    (f"lockstep.{path.parent.name}", path.stem)
    for package in ("ledger", "targets")
    for path in (ENGINE / package).glob("*.sql")
    if path.name != "schema.sql"  # the ledger itself, and no query
)


@pytest.fixture
def empty(servers):
    """Yields the DSN of a database in which nothing was migrated."""
    server = servers.postgres()
    with closing(psycopg2.connect(server.superuser_dsn)) as admin:
        admin.autocommit = True
        admin.cursor().execute("drop database if exists empty_one with (force)")
        admin.cursor().execute("create database empty_one owner lockstep")
        yield re.sub(r"/\w+$", "/empty_one", server.dsn)
        admin.cursor().execute("drop database empty_one with (force)")


def test_migrating_again_applies_nothing(conn):
    assert migrate(conn) == []
    require_migrated(conn)


def test_an_empty_database_is_refused_with_the_command_that_helps(empty):
    with pytest.raises(Refusal, match="lockstep migrate"):
        require_migrated(connect(empty))


def test_an_older_and_a_newer_ledger_are_told_apart(conn):
    with transaction(conn, OWNER) as cur:
        cur.execute("insert into lockstep.migration (version, name, checksum) values (99, 'future', 'x')")
    with pytest.raises(Refusal, match="newer"):
        require_migrated(conn)


def test_an_applied_migration_never_changes(conn):
    with transaction(conn, OWNER) as cur:
        cur.execute("update lockstep.migration set checksum = 'other' where version = 1")
    with pytest.raises(Refusal, match="0001"):
        migrate(conn)


def test_two_migrations_at_once_apply_each_file_once(empty):
    applied, faults = [], []

    def run() -> None:
        try:
            applied.extend(m.version for m in migrate(connect(empty)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must show it
            faults.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sorted(applied) == [migration.version for migration in known()]


@pytest.mark.parametrize(("package", "subject"), SUBJECTS, ids=[subject for _, subject in SUBJECTS])
def test_every_named_query_is_used_and_says_what_it_is_for(package, subject):
    text = files(package).joinpath(f"{subject}.sql").read_text(encoding="utf-8")
    names = queries(package, subject)
    assert len(names) == text.count("-- name: ")
    code = "\n".join(path.read_text(encoding="utf-8") for path in ENGINE.rglob("*.py"))
    assert [name for name in names if f'"{name}"' not in code] == []
