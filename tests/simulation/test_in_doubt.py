"""Tests a commit in doubt: the answer is the ledger's commit row, or no answer at all."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from uuid import uuid4

import psycopg2
import pytest

from lockstep.adapters.postgres import transaction
from lockstep.core.errors import Unreachable
from lockstep.core.planning.decisions import Start
from lockstep.ledger.batch import commit as ledger
from lockstep.steps.attempt import resolve
from lockstep.steps.batch.outcome import complete_report
from lockstep.steps.batch.run import RunReport
from lockstep.steps.context import Context
from simulation.scene import told


@pytest.fixture
def attempt(scene):
    scene.log.produce(0, 6)
    return scene.validated(scene.plan())


def away(monkeypatch, times: int) -> list:
    """Makes the database answer only after so many connections."""
    connect, failures = resolve.connect, [Unreachable("the database is away")] * times
    monkeypatch.setattr(resolve, "SECONDS_BETWEEN_TRIES", 0.01)
    monkeypatch.setattr(resolve, "connect", lambda *a, **k: fail(failures.pop()) if failures else connect(*a, **k))
    return failures


def fail(error: Exception) -> None:
    raise error


def test_a_batch_that_was_abandoned_meanwhile_is_not_committed_again(scene, attempt):
    scene.abandon()
    said = told(lambda: resolve.was_committed(scene.at, attempt))
    assert said.startswith(f"Superseded: batch {attempt.batch_id} was abandoned meanwhile"), said


def test_a_batch_that_was_abandoned_since_the_read_is_not_judged(scene):
    scene.log.produce(0, 6)
    attempt = scene.staged(scene.plan())
    scene.abandon()
    assert told(lambda: scene.validate(attempt)) == f"Superseded: batch {attempt.batch_id} is already abandoned"


def test_an_attempt_that_the_restored_ledger_does_not_have_is_not_judged(scene):
    scene.log.produce(0, 6)
    attempt = scene.staged(scene.plan())
    stranger = replace(attempt, nonce=str(uuid4()))
    assert "was opened in another timeline: the ledger was restored" in told(lambda: scene.validate(stranger))


def test_a_database_that_is_away_is_no_answer(scene, attempt, monkeypatch):
    scene.commit(attempt)
    failures, answers = away(monkeypatch, 3), []
    said = told(lambda: answers.append(resolve.was_committed(scene.at, attempt)))
    assert (said, answers, failures) == ("committed", [True], [])


def test_when_time_is_up_nothing_is_claimed(scene, attempt, monkeypatch):
    away(monkeypatch, 10_000)
    monkeypatch.setattr(resolve, "RESOLVE_SECONDS", 0.2)
    began = time.monotonic()
    said = told(lambda: resolve.was_committed(scene.at, attempt))
    assert "was committed is not known: the database is away" in said
    assert time.monotonic() - began < 60, "its own patience would be two minutes"


def test_a_ledger_that_goes_away_behind_a_commit_leaves_no_doubt(scene, attempt):
    scene.commit(attempt)
    gone, report = Context("host=127.0.0.1 port=1", scene.at.broker), RunReport("p", Start(()), attempt.batch_id)
    said = told(lambda: complete_report(gone, scene.folder.pipeline, report))
    assert said.startswith(
        f"Unreachable: p: batch {attempt.batch_id} is committed, and its figures cannot be read: "
    ), said
    assert said.endswith(f"  Next: lockstep batch {attempt.batch_id}")

    report.superseded = "another run has it"
    assert " is committed" not in told(lambda: complete_report(gone, scene.folder.pipeline, report))


def test_only_the_very_connection_that_commits_is_ended(scene, attempt):
    other = scene.other.conn
    with transaction(other, None) as cur:
        pid, began = ledger.my_backend(cur)

    def ended(seconds: int) -> list[tuple]:
        scene.ask(
            "update lockstep.attempt set backend_pid = %s, backend_start = %s::timestamptz + make_interval(secs => %s)",
            pid,
            began,
            seconds,
        )
        with transaction(scene.at.conn, None) as cur:
            ledger.end_backend(cur, attempt)
        return scene.ask("select pid from pg_stat_activity where pid = %s", pid)

    assert ended(1) == [(pid,)]
    assert ended(0) == []


def test_a_commit_records_its_own_connection_as_the_server_knows_it(scene, attempt):
    """Under a role of a run the start of a session reads null. A committer recorded without it could not be ended."""
    scene.commit(attempt)
    recorded = scene.ask("select backend_pid, backend_start from lockstep.attempt")
    with transaction(scene.at.conn, None) as cur:
        itself = ledger.my_backend(cur)
    assert recorded == [tuple(itself)]
    assert itself.backend_start is not None


def test_a_committer_that_nobody_listens_to_is_ended_and_gives_its_lock_back(scene, attempt, monkeypatch):
    """Its session would stay in the transaction for good, because the server's own timeout is off."""
    monkeypatch.setattr(resolve, "RESOLVE_LOCK_SECONDS", 1)
    monkeypatch.setattr(resolve, "RESOLVE_SECONDS", 60.0)
    answers = []
    with closing(psycopg2.connect(scene.dsn)) as orphan, orphan.cursor() as cur:
        recorded = ledger.my_backend(cur)
        scene.ask("update lockstep.attempt set (backend_pid, backend_start) = (%s, %s)", *recorded)
        cur.execute("set local role lockstep_committer; set local idle_in_transaction_session_timeout = 0")
        cur.execute("select 1 from lockstep.batch for no key update")

        said = told(lambda: answers.append(resolve.was_committed(scene.at, attempt)))

    assert (said, answers) == ("committed", [False])
    assert scene.ask("select pid from pg_stat_activity where pid = %s", recorded[0]) == []
    scene.commit(attempt)
    assert scene.violations() == []
