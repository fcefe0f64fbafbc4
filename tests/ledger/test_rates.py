"""Tests that rates count each committed record once, in its own hour, on a real Postgres."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import timedelta

import pytest

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.ledger.views.rates import committed_rates
from support.fakes.ledger_rows import NOON, TOPIC, read

WEEK, HOUR = timedelta(days=7), timedelta(hours=1)


def segment(ledger, stream, offsets, size, minutes, lane="live"):
    """Commits a batch with these offsets and bytes, from so many minutes before noon to so many."""
    first, last = minutes
    batch = ledger.planned({stream: offsets}, lane=lane)
    token = ledger.opened(batch)
    ledger.committed(batch, token)
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(
            "update lockstep.result set bytes = %s, min_timestamp = %s, max_timestamp = %s where batch_id = %s",
            (size, NOON - timedelta(minutes=first), NOON - timedelta(minutes=last), batch),
        )
    return batch


def rates(conn, since=NOON - WEEK):
    return read(conn, committed_rates, "orders", TOPIC, since, NOON)


def test_without_a_batch_there_is_no_rate(conn, ledger):
    assert rates(conn) == {}
    ledger.stream(0)
    assert rates(conn) == {}


def test_each_partition_has_its_sum_and_its_worst_hour(conn, ledger):
    quiet, busy = ledger.stream(0), ledger.stream(1)
    segment(ledger, quiet, (0, 10), 1_000, (119, 61))
    segment(ledger, busy, (0, 10), 1_000, (239, 181))
    segment(ledger, busy, (10, 40), 9_000, (59, 1))

    found = rates(conn)

    assert {p: (each.records, each.size) for p, each in found.items()} == {0: (10, 1_000), 1: (40, 10_000)}
    assert (found[0].worst_hour, found[0].worst_size) == (NOON - 2 * HOUR, 1_000)
    assert (found[1].worst_hour, found[1].worst_records, found[1].worst_size) == (NOON - HOUR, 30, 9_000)


def test_a_batch_is_spread_over_the_hours_that_its_records_are_of(conn, ledger):
    segment(ledger, ledger.stream(0), (0, 100), 4_000, (150, 30))  # two hours

    (past,) = rates(conn).values()

    assert (past.records, past.size) == (100, 4_000)
    assert (past.worst_hour, past.worst_records, past.worst_size) == (NOON - 2.5 * HOUR, 50, 2_000)


@pytest.mark.parametrize(("first", "reason"), [(59, "in order"), (60 * 24 * 400, "one record is a year old")])
def test_an_old_record_among_new_ones_does_not_flatten_the_worst_hour(conn, ledger, first, reason):
    stream = ledger.stream(0)
    segment(ledger, stream, (0, 10), 100, (119, 60))
    segment(ledger, stream, (10, 20), 5_000, (first, 1))

    (past,) = rates(conn).values()

    assert past.worst_hour == NOON - HOUR, reason
    assert past.worst_size == pytest.approx(5_000, rel=0.02), reason


def test_an_hour_begins_at_any_ten_minutes_so_that_none_is_cut_in_two(conn, ledger):
    segment(ledger, ledger.stream(0), (0, 10), 1_000, (90, 31))

    (past,) = rates(conn).values()

    assert (past.worst_hour, past.worst_size) == (NOON - 1.5 * HOUR, pytest.approx(1_000))


def test_replays_and_what_is_older_than_asked_for_do_not_count(conn, ledger):
    stream = ledger.stream(0)
    segment(ledger, stream, (0, 10), 1_000, (90, 80))
    segment(ledger, stream, (10, 20), 70_000, (60 * 24 * 8, 60 * 24 * 8))
    segment(ledger, stream, (20, 30), 3_000, (20, 10), lane="fill")
    segment(ledger, stream, (30, 40), 50_000, (20, 10), lane="replay")

    (past,) = rates(conn).values()

    assert (past.records, past.size, past.worst_size) == (20, 4_000, 3_000)


@pytest.mark.parametrize("seed", range(3))
def test_the_sums_are_those_of_plain_python(conn, ledger, seed):
    draw, stream, expected, last = random.Random(seed), ledger.stream(0), defaultdict(float), 60 * 30  # noqa: S311
    for number in range(12):
        first, last = last, last - draw.randrange(1, 140)
        size = draw.randrange(1, 10_000)
        segment(ledger, stream, (number * 10, number * 10 + 10), size, (first, last))
        for minute in range(last, first):
            expected[minute] += size / (first - last)

    (past,) = rates(conn).values()

    hours = [sum(expected[minute + m] for m in range(60)) for minute in range(0, 60 * 32, 10)]
    assert past.worst_size == pytest.approx(max(hours))
    assert past.size == pytest.approx(sum(expected.values()))
