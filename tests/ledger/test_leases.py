"""Tests the lease of an attempt: only the holder renews it, notices its loss, and frees it when it fails."""

from __future__ import annotations

import time
from typing import Any

import pytest

from lockstep.adapters.postgres import OWNER, PLANNER, STAGER, transaction
from lockstep.core.errors import LockTimeout, Refusal, Unreachable
from lockstep.core.planning.decisions import Caller, TaskRun
from lockstep.core.staging import AttemptId
from lockstep.ledger.batch import attempts
from lockstep.ledger.batch.plan import HAND_OVER_SECONDS, LEASE_SECONDS, take_lease
from lockstep.steps.attempt import lease

TAKEN_AWAY = {
    "the batch has a newer token": "update lockstep.batch set token = nextval('lockstep.token_seq')",
    "the attempt was closed": "update lockstep.attempt set state = 'failed', closed_at = now()",
    "the batch was abandoned": "update lockstep.batch set state = 'abandoned', closed_at = now(); "
    "delete from lockstep.claim",
}


@pytest.fixture
def attempt(ledger) -> AttemptId:
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    return AttemptId(batch, ledger.opened(batch))


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(lease, "SECONDS_BETWEEN_RENEWALS", 0.05)


def do(ledger, statement: str, **values: Any) -> None:
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(statement, values)


def left(ledger) -> float:
    """Returns the seconds until the newest attempt's lease is over, below 0 if it is."""
    query = (
        "select extract(epoch from lease_until - clock_timestamp())::float from lockstep.attempt order by token desc"
    )
    return ledger.ask(query)[0][0]


def until(true, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def renewed(conn, attempt: AttemptId) -> bool:
    with transaction(conn, STAGER) as cur:
        return attempts.renew_lease(cur, attempt)


def test_a_renewal_gives_the_holder_its_full_time_again(conn, ledger, attempt):
    do(ledger, "update lockstep.attempt set lease_until = clock_timestamp()")
    assert renewed(conn, attempt)
    assert LEASE_SECONDS - 5 < left(ledger) <= LEASE_SECONDS


@pytest.mark.parametrize("statement", TAKEN_AWAY.values(), ids=TAKEN_AWAY)
def test_a_lease_is_not_renewed_when(conn, ledger, attempt, statement):
    do(ledger, statement)
    assert renewed(conn, attempt) is False


@pytest.mark.usefixtures("quick")
def test_a_holder_whose_batch_was_taken_away_is_called_once(database, ledger, attempt):
    calls = []
    with lease.Lease(database, attempt, lambda: calls.append("lost")):
        ledger.opened(attempt.batch_id)
        until(lambda: calls)
        time.sleep(0.3)
    assert calls == ["lost"]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("trouble", [LockTimeout("held"), Unreachable("away")], ids=["a lock", "a database"])
def test_a_renewal_that_waits_for_a_lock_or_a_database_is_still_the_holders(
    database, ledger, attempt, monkeypatch, trouble
):
    renew, calls, failures = attempts.renew_lease, [], [trouble] * 3

    def troubled(cur, of: AttemptId) -> bool:
        if failures:
            raise failures.pop()
        return renew(cur, of)

    monkeypatch.setattr(lease.attempts, "renew_lease", troubled)
    with lease.Lease(database, attempt, lambda: calls.append("lost")):
        do(ledger, "update lockstep.attempt set lease_until = clock_timestamp()")
        until(lambda: left(ledger) > 0)
    assert calls == []


def test_a_block_that_fails_frees_its_lease_and_one_that_ends_keeps_it(database, ledger, attempt):
    with lease.Lease(database, attempt):
        pass
    assert left(ledger) > 0
    with pytest.raises(Refusal, match="no"), lease.Lease(database, attempt):
        raise Refusal("no")
    assert left(ledger) <= 0


@pytest.mark.parametrize("tries", [1, 3])
def test_what_is_handed_over_waits_longer_after_each_try(database, ledger, tries):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    for _ in range(tries):
        attempt = AttemptId(batch, ledger.opened(batch))
    with lease.Lease(database, attempt, hands_over=True):
        pass
    expected = HAND_OVER_SECONDS * 2 ** (tries - 1)
    assert expected - 30 < left(ledger) <= expected


def test_a_holder_that_hands_over_makes_a_long_lease_short_at_once(database, ledger, attempt, monkeypatch):
    monkeypatch.setattr(lease, "SECONDS_BETWEEN_RENEWALS", 3600)
    do(ledger, "update lockstep.attempt set lease_until = clock_timestamp() + interval '1 hour'")
    with lease.Lease(database, attempt, hands_over=True):
        until(lambda: left(ledger) <= LEASE_SECONDS)


def test_a_hand_over_that_fails_frees_its_lease(database, ledger, attempt):
    with pytest.raises(Refusal, match="no"), lease.Lease(database, attempt, hands_over=True):
        raise Refusal("no")
    assert left(ledger) <= 0


def batch_left(ledger) -> float:
    return ledger.ask("select extract(epoch from lease_until - clock_timestamp())::float from lockstep.batch")[0][0]


def test_a_planner_lets_go_of_its_own_batch_and_of_no_others(conn, ledger):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    with transaction(conn, PLANNER) as cur:
        attempts.free_batch_lease(cur, batch, "another/1/1")
    assert batch_left(ledger) > 0
    with transaction(conn, PLANNER) as cur:
        attempts.free_batch_lease(cur, batch, "host/1/1")
    assert batch_left(ledger) <= 0


@pytest.mark.parametrize(("hands_over", "seconds"), [(False, LEASE_SECONDS), (True, HAND_OVER_SECONDS * 4)])
def test_a_plan_that_hands_over_doubles_its_lease_with_each_try(conn, ledger, hands_over, seconds):
    batch = ledger.planned({ledger.stream(0): (0, 10)})
    ledger.opened(batch)
    ledger.opened(batch)
    with transaction(conn, PLANNER) as cur:
        take_lease(cur, batch, Caller("host/1/1", task_run=TaskRun("orders_dag", "run") if hands_over else TaskRun()))
    assert seconds - 15 < batch_left(ledger) <= seconds
