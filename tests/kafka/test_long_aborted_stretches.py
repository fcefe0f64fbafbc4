"""Tests aborted stretches that take long to pass: readers go on while they fetch, and stop at their range's end."""

from __future__ import annotations

import os
import time

import pytest
from confluent_kafka import Producer

from lockstep.adapters.kafka import client as kafka
from lockstep.adapters.kafka import reading as kafka_reading
from lockstep.adapters.kafka.broker import Broker
from lockstep.core.errors import Unreachable
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.engine import kafka_ranges
from support.scenes.odd_logs import marked, stable_end
from support.servers.servers import make_topic

ABORTED = 20_000
LAST = 2 + ABORTED + 1  # behind the first record, the aborted ones, and the marker of each
END = LAST + 2
PATIENCE = 0.8
SLOW = {
    "message.max.bytes": 1_000,
    "fetch.max.bytes": 1_000,
    "max.partition.fetch.bytes": 1_000,
}  # a few records a fetch


@pytest.fixture(scope="module")
def aborted(kafka):
    """Writes a record, an aborted transaction that takes seconds to pass, and a record, for tests that only read.

    Returns the broker's address and the topic.
    """
    name = f"aborted-{os.getpid()}"
    make_topic(kafka, name, partitions=1)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": name, "batch.num.messages": 1, "linger.ms": 0})
    producer.init_transactions(30)
    for values, end in [([b"first"], "commit"), ([b"x" * 500] * ABORTED, "abort"), ([b"last"], "commit")]:
        producer.begin_transaction()
        for value in values:
            producer.produce(name, value)
            producer.poll(0)
        producer.flush(60)
        producer.commit_transaction(30) if end == "commit" else producer.abort_transaction(30)
    marked(kafka, name, END)
    return kafka, name


def task(kafka: str, topic: str, until: int) -> list[int]:
    item = StreamRange(1, OffsetRange(TopicPartition(topic, 0), 0, until))
    batches = kafka_ranges.KafkaRanges(kafka, KafkaOptions()).records([item])
    return [offset for batch in batches for offset in batch["_offset"].to_pylist()]


def verifier(address: str, topic: str, until: int) -> list[int]:
    broker = Broker(address)
    broker._options |= SLOW  # noqa: SLF001 - a slow link
    return [message.offset() for message in broker.records(topic, 0, 0, until)]


def told(read, address: str, topic: str, until: int) -> list[int] | str:
    """Returns the offsets that a reader was given, or why it gave up."""
    try:
        return read(address, topic, until)
    except Unreachable as away:
        return str(away)


@pytest.fixture
def slow(monkeypatch):
    monkeypatch.setattr(kafka_ranges, "FETCH_PATIENCE", PATIENCE)
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", PATIENCE)
    monkeypatch.setattr(kafka_ranges, "FETCH_TUNING", kafka_ranges.FETCH_TUNING | SLOW)
    monkeypatch.setattr(kafka_reading, "INTERVAL_MS", 100)


both = pytest.mark.parametrize("read", [task, pytest.param(verifier, marks=pytest.mark.long)])


@both
@pytest.mark.usefixtures("slow")
def test_a_reader_goes_on_through_a_stretch_that_takes_longer_than_its_patience(aborted, read):
    address, topic = aborted
    end, began = stable_end(address, topic), time.monotonic()
    assert told(read, address, topic, end) == [0, LAST]
    assert time.monotonic() - began > PATIENCE, "the stretch was passed too soon to show anything"


@both
@pytest.mark.usefixtures("slow")
def test_a_range_that_ends_at_an_abort_marker_ends_there(aborted, read):
    address, topic = aborted
    assert told(read, address, topic, LAST) == [0]


@pytest.mark.usefixtures("slow")
def test_a_task_that_fetches_nothing_names_the_offset_at_which_it_waits(aborted):
    address, topic = aborted
    end = stable_end(address, topic)
    with pytest.raises(Unreachable, match=rf"{topic}-0 .* nothing came from offset {end} on for"):
        task(address, topic, end + 5)
