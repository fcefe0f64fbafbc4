"""Tests kills at any moment: the next run finishes the same batch, and each record is in the table once."""

from __future__ import annotations

import threading
import time

import psycopg2
import pytest

from support.scenes.drill import said

BEFORE_THE_COMMIT = [
    "plan.locked",
    "plan.ranges_written",
    "plan.committed",
    "stage.session_up",
    "stage.done",
    "validate.after",
    "commit.locked",
    "commit.fence_ok",
    "commit.counts_ok",
    "commit.published",
    "commit.ledger_written",
]
AFTER_THE_COMMIT = ["commit.done_unacknowledged", "announce.before"]


@pytest.mark.parametrize("point", BEFORE_THE_COMMIT)
def test_killed_before_the_commit_nothing_is_written_and_the_next_run_does_it_once(drill, point):
    assert drill.run(fault=f"{point}=kill") == {"killed": "SIGKILL"}
    assert drill.committed() == []
    assert drill.ask("select count(*) from public.drill") == [(0,)]

    assert drill.run("--until-idle")["decision"] == "Idle"

    assert drill.ask("select count(*) from public.drill") == [(150,)]
    assert drill.violations() == []


@pytest.mark.parametrize("point", AFTER_THE_COMMIT)
def test_killed_after_the_commit_the_next_run_finds_it_committed_and_repeats_nothing(drill, point):
    assert drill.run(fault=f"{point}=kill") == {"killed": "SIGKILL"}
    before = drill.committed()
    assert len(before) == 1

    assert drill.run("--until-idle") == {"decision": "Idle", "superseded": None, "committed": []}

    assert drill.committed() == before
    assert drill.violations() == []


def test_killed_inside_the_commit_the_ledger_knows_what_happened(drill):
    slow_commit(drill)
    process = drill.start()
    committing(drill)
    process.kill()
    process.wait()

    said(drill.start("--until-idle"))

    assert drill.ask("select count(*) from public.drill") == [(150,)]
    assert len(drill.committed()) == 1
    assert drill.violations() == []


def test_an_acknowledgement_that_never_came_is_resolved_by_the_commit_row(drill):
    slow_commit(drill)
    process = drill.start("--until-idle")
    end_committer = threading.Thread(target=terminate, args=(drill, committing(drill)))
    end_committer.start()

    answer = said(process)
    end_committer.join()

    assert answer["decision"] == "Idle"
    assert len(answer["committed"]) == 1
    assert len({token for _, token in drill.committed()}) == 1
    assert drill.violations() == []


def slow_commit(drill) -> None:
    """Makes the COMMIT itself take a second and a half: a deferred trigger sleeps in it, once."""
    conn = psycopg2.connect(drill.dsn)
    with conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner")
        cur.execute(
            "create function lockstep.dawdle() returns trigger language plpgsql as "
            "$$ begin perform pg_sleep(1.5); return null; end $$"
        )
        cur.execute(
            "create constraint trigger dawdle after update of state on lockstep.batch "
            "deferrable initially deferred for each row execute function lockstep.dawdle()"
        )
    conn.close()


def committing(drill) -> int:
    """Returns the backend that is inside COMMIT now."""
    until = time.monotonic() + 30
    while True:
        rows = drill.ask(
            "select pid from pg_stat_activity "
            "where datname = current_database() and query = 'COMMIT' and wait_event = 'PgSleep'"
        )
        if rows:
            return rows[0][0]
        assert time.monotonic() < until, "no COMMIT was under way"
        time.sleep(0.02)


def terminate(drill, pid: int) -> None:
    drill.ask("select pg_terminate_backend(%s)", pid)
