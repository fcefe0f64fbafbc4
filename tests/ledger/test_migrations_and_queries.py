from __future__ import annotations

import threading
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import psycopg2
import pytest

import lockstep
from lockstep.adapters.postgres import OWNER, connect, transaction
from lockstep.core.errors import Refusal
from lockstep.ledger.migrate import known_migrations, migrate, require_migrated
from lockstep.ledger.queries import queries
from support.scenes.older_ledger import migrate_below

ENGINE = Path(lockstep.__file__).parent
SUBJECTS = sorted(
    ("lockstep." + ".".join(path.parent.relative_to(ENGINE).parts), path.stem)
    for package in ("ledger", "targets")
    for path in (ENGINE / package).rglob("*.sql")
    if path.name != "schema.sql" and path.parent.name != "migrations"  # the ledger itself, and no query
)


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


def test_an_hour_that_two_runs_had_told_at_once_is_the_first_ones_when_revisions_come(empty, monkeypatch):
    with closing(connect(empty)) as conn:
        migrate_below(conn, 37, monkeypatch)
        with transaction(conn, OWNER) as cur:
            cur.execute("insert into lockstep.pipeline (name) values ('orders')")
            for hour, tellers in (("10:00", {"run 1": "11:02", "run 2": "11:01"}), ("11:00", {"run 1": "11:02"})):
                cur.execute(
                    "insert into lockstep.complete_hour values ('orders', %s, '{}')", (f"2026-05-01 {hour}+00",)
                )
                for teller, at in tellers.items():
                    told = (f"2026-05-01 {hour}+00", teller, f"2026-05-01 {at}+00")
                    cur.execute("insert into lockstep.hour_told values ('orders', %s, %s, %s)", told)

        migrate(conn)

        with transaction(conn, OWNER) as cur:
            cur.execute("select revision, told_by from lockstep.hour_told order by until")
            assert [tuple(row) for row in cur.fetchall()] == [(1, "run 2"), (1, "run 1")]


def test_images_of_a_feed_that_is_there_stay_and_can_be_erased_from_then_on(empty, monkeypatch):
    with closing(connect(empty)) as conn:
        migrate_below(conn, 44, monkeypatch)
        with transaction(conn, OWNER) as cur:
            cur.execute(
                "insert into lockstep.feed (target, name, key, keep, began_empty)"
                " values ('public.old', 'public_old', '{id}', '1 day', true)"
            )
            cur.execute(
                "create table lockstep_feed.public_old (id text, _change text constraint change_is_known"
                " check (_change in ('insert', 'before', 'after', 'delete')), _change_set bigint, _ordinal_in_set bigint)"
            )
            cur.execute("insert into lockstep_feed.public_old values ('a', 'insert', 1, 0)")

        migrate(conn)

        with pytest.raises(psycopg2.Error, match="image_stays"), transaction(conn, OWNER) as cur:
            cur.execute("update lockstep_feed.public_old set id = null, _change = 'erased'")
        with pytest.raises(psycopg2.Error, match="change_is_known"), transaction(conn, OWNER) as cur:
            cur.execute("insert into lockstep_feed.public_old values (null, 'erased', 1, 1), ('b', 'odd', 1, 2)")
        with transaction(conn, OWNER) as cur:
            cur.execute("insert into lockstep_feed.public_old values (null, 'erased', 1, 1)")


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
    assert sorted(applied) == [migration.version for migration in known_migrations()]


@pytest.mark.parametrize(("package", "subject"), SUBJECTS, ids=[subject for _, subject in SUBJECTS])
def test_every_named_query_is_used_and_says_what_it_is_for(package, subject):
    text = files(package).joinpath(f"{subject}.sql").read_text(encoding="utf-8")
    names = queries(package, subject)
    assert len(names) == text.count("-- name: ")
    code = "\n".join(path.read_text(encoding="utf-8") for path in ENGINE.rglob("*.py"))
    assert [name for name in names if f'"{name}"' not in code] == []
