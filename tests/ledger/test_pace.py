"""Tests that limits in seconds and bytes rest on the pace of earlier batches."""

from __future__ import annotations

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.pipeline.definition import Limits
from lockstep.core.planning.decisions import Pace
from lockstep.core.planning.tasks import PastBatch, PastBatches
from lockstep.ledger.admin.facts import flow
from lockstep.ledger.batch.plan import data_failures, recent_pace


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


def test_what_the_doctor_knows_of_the_past_is_the_newest_twenty_batches_of_the_live_lane(ledger, conn):
    one, other = ledger.stream(0), ledger.stream(1)
    ledger.done({one: (0, 10), other: (0, 25)})  # opened at 1 s and closed at 4.5 s
    for place in range(1, 21):
        ledger.done({one: (place * 10, place * 10 + 10)})
    ledger.planned({one: (210, 220)})

    with transaction(conn, READER) as cur:
        found = flow(cur, "orders").past

    assert found == PastBatches((PastBatch(10, 3.5),) * 20, None, 1.0), "10 bytes a range, and no minute of log"


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
