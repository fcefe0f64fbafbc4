"""Tests that limits in seconds and bytes rest on the pace of earlier batches."""

from __future__ import annotations

from lockstep.adapters.postgres import PLANNER, transaction
from lockstep.core.decisions import Pace
from lockstep.core.definition import Limits
from lockstep.ledger.plan import data_failures, recent_pace


def pace(conn) -> Pace:
    with transaction(conn, PLANNER) as cur:
        return recent_pace(cur, "orders", Limits(seconds=60))


def test_a_pipeline_without_a_batch_has_no_pace(ledger, conn):
    ledger.stream(0)
    assert pace(conn) == Pace()


def test_the_pace_is_the_best_rate_of_the_last_batches_and_their_mean_size(ledger, conn):
    one, other = ledger.stream(0), ledger.stream(1)
    ledger.done({one: (0, 10), other: (0, 25)})  # each took 3.5 s from opened to closed, as the facts are written
    ledger.done({one: (10, 20)})

    found = pace(conn)

    assert found.offsets_per_second == 10.0
    assert round(found.bytes_per_offset, 3) == round(30 / 45, 3)


def test_only_failures_by_data_under_the_same_definition_count(ledger, conn):
    stream = ledger.stream(0)
    batch = ledger.planned({stream: (0, 10)})
    for fault in ("data", "surroundings", "data"):
        token = ledger.opened(batch)
        ledger.ask(
            "update lockstep.attempt set state = 'failed', closed_at = now(), fault = %(f)s, error = %(e)s"
            " where token = %(t)s returning 1",
            f=fault,
            e=f"because of {token}",
            t=token,
        )
    with transaction(conn, PLANNER) as cur:
        assert data_failures(cur, batch, "d1") == (2, f"because of {token}")
        assert data_failures(cur, batch, "another") == (0, None)
