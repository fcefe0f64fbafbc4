"""Sends records with given timestamps, to a drill that reads nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from confluent_kafka import Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from support.scenes.here import Here


def send(here: Here, partition: int, times: Iterable[datetime], value: str = json.dumps({"id": "r", "n": 1})) -> None:
    """Sends one record for each of these times, in this order."""
    producer, refused = Producer({"bootstrap.servers": here.drill.kafka, "linger.ms": 5}), []

    def delivered(error, _message) -> None:
        refused.extend([error] if error else [])

    for each in times:
        known = {"partition": partition, "timestamp": int(each.timestamp() * 1000), "on_delivery": delivered}
        producer.produce(here.drill.topic, value, "k", **known)
    assert (producer.flush(20), refused) == (0, [])


def on_a_new_topic(here: Here, topic: Callable[..., str], partitions: int) -> Here:
    """Lets the drill read another, empty topic, which accepts records from any time."""
    name = topic(partitions=partitions, message_timestamp_after_max_ms=2**63 - 1)
    here.rewrite(here.drill.topic, name)
    here.drill.topic = name
    return here
