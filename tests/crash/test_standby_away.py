"""Tests a synchronous standby that is away.

COMMIT waits, and no process is told of a commit that a failover could undo.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from contextlib import closing, suppress

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.core.errors import Unreachable
from lockstep.core.staging import AttemptId
from lockstep.dev.servers import postgres as dev_postgres
from lockstep.ledger.migrate import migrate, migrate_target
from lockstep.steps.attempt import resolve
from lockstep.steps.attempt.lease import Lease
from simulation.child import Child
from support.scenes.drill import Drill, write_folder
from support.scenes.here import Here
from support.scenes.odd_logs import until

NUMBERS = itertools.count()


class Alone:
    """A drill over its own Postgres, which may be told to wait for a standby that does not exist."""

    def __init__(self, drill: Drill, server: dev_postgres.Server) -> None:
        self.drill, self.server = drill, server
        self.children: list[Child] = []

    def waits_for(self, names: str) -> None:
        self.superuser(f"alter system set synchronous_standby_names = '{names}'")
        self.superuser("select pg_reload_conf()")
        until(lambda: self.a_commit_waits() is bool(names), f"synchronous_standby_names is not '{names}' for all")

    def a_commit_waits(self) -> bool | None:
        """Returns whether a COMMIT waits for a standby, or None if that was not seen.

        The setting reaches the process that keeps it for all others a moment later than a session.
        """
        with closing(psycopg2.connect(self.server.superuser_dsn)) as conn:
            patience = threading.Timer(0.5, conn.cancel)
            patience.start()
            try:
                with conn, conn.cursor() as cur:
                    cur.execute("select pg_logical_emit_message(true, 'test', '')")
            except psycopg2.errors.QueryCanceled:
                return None
            finally:
                patience.cancel()
            return any("canceling wait for synchronous replication" in notice for notice in conn.notices)

    def superuser(self, statement: str) -> list[tuple]:
        with closing(psycopg2.connect(self.server.superuser_dsn)) as conn:
            conn.autocommit = True
            cur = conn.cursor()
            cur.execute(statement)
            with suppress(psycopg2.ProgrammingError):
                return cur.fetchall()
        return []

    def begins(self, fault: str) -> Child:
        def run() -> dict:
            report = Here(self.drill).run()
            return {"went_on": report.went_on, "superseded": report.superseded}

        self.children.append(Child.fork(self.drill.home / f"armed-{next(NUMBERS)}", fault, run))
        return self.children[-1]

    def waiting(self, query: str = "COMMIT") -> int:
        """Returns the backend whose COMMIT waits for the standby."""
        until = time.monotonic() + 20
        while True:
            rows = self.superuser(
                f"select pid from pg_stat_activity where wait_event = 'SyncRep' and query = '{query}' order by query_start"
            )
            if rows:
                return rows[0][0]
            assert time.monotonic() < until, "no COMMIT waits"
            time.sleep(0.05)

    def values(self) -> list[int]:
        return sorted(n for (n,) in self.drill.ask("select n from public.drill"))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("alone")
    yield dev_postgres.start(home)
    dev_postgres.remove_server(home)


@pytest.fixture
def alone(server, kafka, topic, produce, tmp_path, monkeypatch):
    name = topic(partitions=3)
    drill = Drill(server.dsn, kafka, name, write_folder(tmp_path, name))
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(drill.home))
    with closing(psycopg2.connect(server.superuser_dsn)) as admin:
        admin.autocommit = True
        for schema in ("lockstep", "lockstep_staging", "lockstep_lake"):
            admin.cursor().execute(f"drop schema if exists {schema} cascade")
        admin.cursor().execute("drop table if exists public.drill")
    with closing(connect(server.dsn)) as conn:
        migrate(conn)
        migrate_target(conn, load("drill"))
    produce(name, [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(150)])
    made = Alone(drill, server)
    yield made
    made.waits_for("")
    for child in made.children:
        child.kill()


def test_while_the_standby_is_away_no_process_is_told_of_a_commit(alone):
    child = alone.begins("commit.ledger_written=stop")
    assert child.stopped()
    alone.waits_for("nobody")
    child.go_on()
    alone.waiting()
    time.sleep(1.5)
    assert not child.stands()
    assert alone.values() == []

    alone.waits_for("")

    assert child.wait().told == {"went_on": True, "superseded": None, "reached": True}
    assert alone.values() == list(range(150))


def test_an_acknowledgement_that_was_lost_is_resolved_when_the_standby_is_back(alone):
    child = alone.begins("commit.ledger_written=stop")
    assert child.stopped()
    alone.waits_for("nobody")
    child.go_on()
    alone.superuser(f"select pg_terminate_backend({alone.waiting()})")
    time.sleep(1.5)
    assert alone.values() == list(range(150)), "readers see what a failover may still undo"
    assert [state for (state,) in alone.drill.ask("select state from lockstep.batch")] == ["committed"]
    alone.waiting()  # the resolver's own

    alone.waits_for("")

    assert child.wait().told == {"went_on": True, "superseded": None, "reached": True}
    assert len(alone.drill.committed()) == 1


def test_the_wait_for_an_answer_is_bounded_and_says_that_it_is_not_known(alone, monkeypatch):
    monkeypatch.setattr(resolve, "RESOLVE_SECONDS", 3.0)
    child = alone.begins("commit.ledger_written=stop")
    assert child.stopped()
    alone.waits_for("nobody")
    child.go_on()
    begun = time.monotonic()
    alone.superuser(f"select pg_terminate_backend({alone.waiting()})")

    outcome = child.wait()

    assert time.monotonic() - begun < 20
    assert outcome.kind == "refused"
    assert "is not known" in outcome.told["error"]
    alone.waits_for("")
    here = Here(alone.drill)
    here.drain()
    here.at.close()
    assert len(alone.drill.committed()) == 1
    assert alone.values() == list(range(150))


def test_a_wait_for_the_standby_that_was_cancelled_is_no_commit_to_tell_of(alone):
    child = alone.begins("commit.ledger_written=stop")
    assert child.stopped()
    alone.waits_for("nobody")
    child.go_on()
    alone.superuser(f"select pg_cancel_backend({alone.waiting()})")
    time.sleep(1.5)
    alone.waiting()  # the resolver's own: the child still asks
    assert not child.stands()

    alone.waits_for("")

    assert child.wait().told == {"went_on": True, "superseded": None, "reached": True}


def test_a_transaction_whose_standby_did_not_confirm_it_is_not_told_as_done(alone):
    alone.waits_for("nobody")
    conn = connect(alone.drill.dsn)

    def insert() -> None:
        with transaction(conn, "lockstep_planner") as cur:
            cur.execute("insert into lockstep.pipeline (name) values ('late')")
            threading.Timer(1.0, conn.cancel).start()

    with pytest.raises(Unreachable, match="standby has not confirmed"):
        insert()
    with transaction(conn, READER) as cur:
        cur.execute("select name from lockstep.pipeline where name <> 'drill'")
        assert [row.name for row in cur.fetchall()] == ["late"]
    conn.close()


def test_a_lease_is_renewed_and_freed_without_the_standby(alone):
    here = Here(alone.drill)
    here.run()
    here.at.close()
    batch, token, nonce = alone.drill.ask("select batch_id, token, nonce::text from lockstep.attempt")[0]
    alone.waits_for("nobody")
    begun = time.monotonic()
    with suppress(InterruptedError), Lease(alone.drill.dsn, AttemptId(batch, token, nonce), hands_over=True):
        time.sleep(0.2)
        raise InterruptedError
    assert time.monotonic() - begun < 60, "nobody brings the standby back"
