"""Tests that a relay makes progress into a slow sink, and takes the broker's own timeout for no later relay."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from feed.sending import Sending, sent_to
from lockstep.adapters.kafka.sink import SinkWriter
from lockstep.core.errors import Superseded, Unreachable
from lockstep.core.feed.relaying import FeedRecord
from lockstep.steps.feed.relay import relay

KIB = 1024


class SlowProducer(Producer):
    """A producer whose sink takes `TAKEN` records in the time that a flush has."""

    TAKEN = 9
    asked = 0

    def begin_transaction(self) -> None:
        self.asked = 0
        super().begin_transaction()

    def produce(self, *arguments: Any, **named: Any) -> None:
        self.asked += 1
        super().produce(*arguments, **named)

    def flush(self, timeout: float) -> int:
        return max(self.asked - self.TAKEN, 0) or super().flush(timeout)


@pytest.fixture
def here(database, kafka, topic):
    """Returns a table with one set of 40 changes of 2 KiB each. None of them is sent."""
    here = Sending(database, kafka, sent_to(topic(partitions=2)))
    here.make()
    here.change(*((f"{n:02}{'x' * KIB}", n) for n in range(40)))
    return here


def test_e18_a_slow_sink_gets_half_as_much_until_it_takes_it(here, monkeypatch):
    monkeypatch.setattr("lockstep.adapters.kafka.sink.Producer", SlowProducer)
    monkeypatch.setattr("lockstep.steps.feed.relay.MOST_SENT_BYTES", 64 * KIB, raising=False)
    monkeypatch.setattr("lockstep.steps.feed.relay.LEAST_SENT_BYTES", 8 * KIB, raising=False)
    seen: list[int] = []

    report = relay(here.at, here.pipeline, here.target, "me", seen.append)

    assert (report.sent, report.stopped) == (40, None)
    assert seen[0] <= SlowProducer.TAKEN
    assert here.knows() == (40, None)
    assert here.wrong() == []


def test_a_sink_that_takes_nothing_is_told_with_what_was_tried(here, monkeypatch):
    monkeypatch.setattr("lockstep.adapters.kafka.sink.Producer", SlowProducer)
    monkeypatch.setattr(SlowProducer, "TAKEN", 0)
    monkeypatch.setattr("lockstep.steps.feed.relay.MOST_SENT_BYTES", 32 * KIB, raising=False)
    monkeypatch.setattr("lockstep.steps.feed.relay.LEAST_SENT_BYTES", 8 * KIB, raising=False)
    with pytest.raises(Unreachable, match="records were not acknowledged within 30 s") as refused:
        here.relay()
    assert not isinstance(refused.value, Superseded)
    assert here.knows()[0] == 0


def test_e16_a_producer_that_was_ended_by_a_later_one_says_so_by_whichever_record_it_refuses(here):
    first, later = (SinkWriter(here.at.broker, here.topic, "the same") for _ in range(2))
    first.fence()
    first.begin()
    first.send([FeedRecord(0, 1, b"k", b"v", [], 0)])
    later.fence()

    def slowly():
        for number in range(1, 400):
            yield FeedRecord(number, 1, b"k", b"v", [], 0)
            time.sleep(0.05)

    with pytest.raises(Superseded):
        first.send(slowly())


@pytest.mark.long
@pytest.mark.timeout(120)
def test_e16_a_transaction_that_kafka_ended_itself_is_sent_again_in_smaller_parts(here, monkeypatch):
    monkeypatch.setattr("lockstep.adapters.kafka.sink.TRANSACTION_SECONDS", 1)
    slept: list[str] = []

    def once(point: str) -> None:
        if point == "relay.flushed" and not slept:
            slept.append(point)
            time.sleep(15)  # the broker looks for transactions that took too long each ten seconds

    monkeypatch.setattr("lockstep.steps.feed.relay.reach", once)

    report = here.relay()

    assert slept == ["relay.flushed"]
    assert (report.sent, report.stopped) == (40, None)
    assert here.wrong() == []
