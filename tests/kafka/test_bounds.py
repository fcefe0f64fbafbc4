"""Tests the adapter's bounds of a log: as far as a committed reader may read, and not a record further."""

from __future__ import annotations

import time

from lockstep.adapters.kafka.broker import Broker
from lockstep.core.offsets import Bounds

RECORDS = [("k", b"{}")] * 3


def reaches(kafka: str, name: str, expected: Bounds) -> Bounds:
    """Returns the bounds, once they are as expected. A transaction's marker comes after the answer to its commit."""
    until = time.monotonic() + 20
    while True:
        (bounds,) = Broker(kafka).view(name).bounds.values()
        if bounds == expected or time.monotonic() > until:
            return bounds
        time.sleep(0.05)


def test_an_open_transaction_ends_the_log_for_whoever_plans(kafka, topic, produce):
    name = topic(partitions=1)
    produce(name, RECORDS, end="commit")
    before = reaches(kafka, name, Bounds(0, 4))
    under_way = produce(name, RECORDS, end="open")
    produce(name, RECORDS)

    during = Broker(kafka).view(name).bounds
    under_way.commit_transaction(20)
    after = reaches(kafka, name, Bounds(0, 11))

    assert (before, during, after) == (Bounds(0, 4), {0: Bounds(0, 4)}, Bounds(0, 11))
