"""Tests positions as a consumer group's offsets: forward only, for lag tools, and never read back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from confluent_kafka import Consumer, TopicPartition

from lockstep.adapters.kafka.broker import Broker
from lockstep.core.errors import Unreachable
from lockstep.core.offsets import TopicPartition as LogPartition


def offsets(kafka: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    found = consumer.committed([TopicPartition(topic, p) for p in range(partitions)], timeout=20)
    consumer.close()
    return [part.offset for part in found]


def test_a_mirror_goes_forward_and_never_back(kafka, topic, produce):
    name = topic(partitions=2)
    produce(name, [(f"k{i}", "{}") for i in range(50)])
    broker, group = Broker(kafka), f"lockstep-{name}"

    one, two = LogPartition(name, 0), LogPartition(name, 1)
    broker.mirror(group, {one: 5})
    broker.mirror(group, {one: 3, two: 7})
    broker.mirror(group, {one: 9})

    assert offsets(kafka, group, name, 2) == [9, 7]


def test_a_run_shows_its_positions_and_a_group_that_is_in_use_stops_nothing(drill):
    assert drill.run("--until-idle")["decision"] == "Idle"
    positions = [row[0] for row in drill.ask("select position from lockstep.stream order by partition")]
    assert offsets(drill.kafka, "lockstep-drill", drill.topic, 3) == positions

    member = Consumer({"bootstrap.servers": drill.kafka, "group.id": "lockstep-busy"})
    member.subscribe([drill.topic])
    while not member.assignment():
        member.poll(0.2)
    with pytest.raises(Unreachable):
        Broker(drill.kafka).mirror("lockstep-busy", {LogPartition(drill.topic, 0): 1})
    member.close()


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"retention_ms": 60_000}, timedelta(minutes=1)),
        ({"retention_ms": -1}, None),
        ({"retention_ms": 2**63 - 1}, None),
        ({"retention_ms": 60_000, "cleanup_policy": "compact"}, None),
    ],
)
def test_retention_is_how_long_time_lets_a_record_be(kafka, topic, settings, kept):
    assert Broker(kafka).retention(topic(partitions=1, **settings)) == kept
