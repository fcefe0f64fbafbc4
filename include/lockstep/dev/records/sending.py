"""Sends records to a topic in order, each once, and counts those that the broker acknowledged."""

from __future__ import annotations

import time
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from lockstep.core.errors import Unreachable
from lockstep.dev.records.topics import client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from confluent_kafka import KafkaError, Message

IN_FLIGHT = 200_000
CHUNK = 2_000
MESSAGE_BYTES = 1_000_000
"""The most bytes of a key and a value together that this client sends. The broker takes a little more."""
_OVERHEAD_BYTES = 512


def send(
    bootstrap: str,
    topic: str,
    records: Iterable[tuple[bytes | None, bytes | None]],
    advanced: Callable[[int], None],
    *,
    rate: float | None = None,
    counted: bool = False,
) -> dict[int, int]:
    """Sends keys with values, and reports each chunk to `advanced`.

    With `counted`, returns how many records the broker acknowledged in each partition. This is slower, because each
    record is then a call into Python.
    """
    failures: list[str] = []
    counts: Counter[int] = Counter()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            counts[message.partition() or 0] += 1
        else:
            failures.append(error.str())

    producer = Producer(
        client(bootstrap)
        | {
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            "message.timeout.ms": 30_000,
            "message.max.bytes": MESSAGE_BYTES + _OVERHEAD_BYTES,
            "delivery.report.only.error": not counted,
            "queue.buffering.max.messages": 2 * IN_FLIGHT,
            "on_delivery": delivered,
        }
    )
    try:
        _send_all(producer, topic, iter(records), advanced, rate, failures)
    except KafkaException as error:
        failures.append(error.args[0].str())
    if failures:
        producer.purge()
        there = f"; {counts.total()} of them are there" if counted else ""
        raise Unreachable(
            f"Kafka at {bootstrap} did not take all records for {topic}: {failures[0]}{there}",
            next_command="lockstep dev status",
        )
    return dict(sorted(counts.items()))


def _send_all(
    producer: Producer,
    topic: str,
    records: Any,
    advanced: Callable[[int], None],
    rate: float | None,
    failures: list[str],
) -> None:
    began, sent = time.monotonic(), 0
    size = CHUNK if rate is None else max(1, min(CHUNK, int(rate / 10)))
    while chunk := [{"key": key, "value": value} for key, value in islice(records, size)]:
        producer.produce_batch(topic, chunk)
        failures += [str(each["_error"]) for each in chunk if "_error" in each]
        sent += len(chunk)
        advanced(len(chunk))
        producer.poll(0)
        while len(producer) > IN_FLIGHT and not failures:
            producer.poll(0.05)
        if failures:
            return
        if rate is not None:
            time.sleep(max(0.0, began + sent / rate - time.monotonic()))
    while len(producer) and not failures:
        producer.flush(0.5)
