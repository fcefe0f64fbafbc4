"""Tests the adapter's bounds of a log: as far as a committed reader may read, and not a record further."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer

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


def test_a_time_is_looked_up_to_the_microsecond_and_one_before_1970_is_the_logs_start(kafka, topic):
    name, at = topic(partitions=1), datetime(2026, 5, 1, 12, tzinfo=UTC)
    producer = Producer({"bootstrap.servers": kafka})
    for milliseconds in (0, 1, 2):
        producer.produce(name, b"{}", timestamp=int(at.timestamp() * 1000) + milliseconds)
    producer.flush(10)
    broker = Broker(kafka)
    view = broker.view(name)

    found = [broker.offsets_at(view, at + timedelta(microseconds=each))[0] for each in (0, 1, 999, 1000, 1001, 2001)]

    assert found == [0, 1, 1, 1, 2, 3], "the first record at or past a time"
    for year in (1, 1000, 1969, 1970):
        assert broker.offsets_at(view, datetime(year, 1, 2, tzinfo=UTC)) == {0: 0}
    assert broker.offsets_at(view, datetime.max.replace(tzinfo=UTC)) == {0: 3}
