"""Sends sample data to a broker, in order, each record once, from the topic's end on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from lockstep.core.errors import Refusal, Unreachable
from lockstep.dev.samples import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.dev.samples import Sample

PARTITIONS = 4
_PATIENCE = 5.0
_IN_FLIGHT = 200_000
_CHUNK = 2_000
_KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True, slots=True)
class Errand:
    """The order for sample data: a sample, a number of records, a seed, and a rate in records a second or None."""

    sample: Sample
    records: int
    seed: int = 0
    rate: float | None = None
    up_to: bool = False
    """`records` is then how many the topic is to hold, not how many more."""


def sample_named(name: str) -> Sample:
    """Returns the sample of that name. Raises `Refusal`, with all names, for an unknown one."""
    if name not in SAMPLES:
        known = ", ".join(sorted(SAMPLES))
        raise Refusal(f"no sample data is named {name}; there is {known}.", next_command="lockstep dev produce orders")
    return SAMPLES[name]


def produce(bootstrap: str, errand: Errand, advanced: Callable[[int], None]) -> int:
    """Creates the topic if needed, sends the records, and reports each chunk to `advanced`. Returns their number.

    A sample's place is the sum of the topic's end offsets, so each call goes on with new records.
    """
    topic = errand.sample.topic
    admin = AdminClient(_client(bootstrap))
    try:
        # A new topic's partitions answer no questions yet, and need not be asked.
        place = 0 if _create(admin, topic) else _end(admin, topic)
        wanted = max(0, errand.records - place) if errand.up_to else errand.records
        _send(bootstrap, errand, place, wanted, advanced)
    except KafkaException as error:
        raise _away(bootstrap, error.args[0].str()) from None
    except TimeoutError:
        raise _away(bootstrap, f"nothing within {_PATIENCE:.0f} s") from None
    return wanted


def _send(bootstrap: str, errand: Errand, place: int, wanted: int, advanced: Callable[[int], None]) -> None:
    failures: list[str] = []
    # Only failures are reported: a call into Python for each record would be slower than the sending.
    settings = {
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "linger.ms": 20,
        "message.timeout.ms": 30_000,
        "delivery.report.only.error": True,
        "queue.buffering.max.messages": 2 * _IN_FLIGHT,
        "on_delivery": lambda error, _message: failures.append(error.str()),
    }
    producer = Producer(_client(bootstrap) | settings)
    records = errand.sample.records(errand.seed, place, wanted)
    began, sent = time.monotonic(), 0
    size = _CHUNK if errand.rate is None else max(1, min(_CHUNK, int(errand.rate / 10)))
    while chunk := [{"key": key, "value": value} for key, value in islice(records, size)]:
        producer.produce_batch(errand.sample.topic, chunk)
        sent += len(chunk)
        advanced(len(chunk))
        producer.poll(0)
        while len(producer) > _IN_FLIGHT and not failures:
            producer.poll(0.05)
        if failures:
            break
        if errand.rate is not None:
            time.sleep(max(0.0, began + sent / errand.rate - time.monotonic()))
    while len(producer) and not failures:
        producer.flush(0.5)
    if failures:
        raise _away(bootstrap, failures[0])


def _create(admin: AdminClient, topic: str) -> bool:
    """Creates the topic. Returns False if it existed."""
    new = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1, config=_KEPT_FOR_EVER)
    try:
        admin.create_topics([new], operation_timeout=_PATIENCE, request_timeout=_PATIENCE)[topic].result(_PATIENCE)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return False
    return True


def _end(admin: AdminClient, topic: str) -> int:
    partitions = admin.list_topics(topic, timeout=_PATIENCE).topics[topic].partitions
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
    answers = admin.list_offsets(asked, request_timeout=_PATIENCE)
    return sum(answer.result(_PATIENCE).offset for answer in answers.values())


def _client(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "log_level": 0, "allow.auto.create.topics": False}


def _away(bootstrap: str, words: str) -> Unreachable:
    return Unreachable(f"Kafka at {bootstrap} does not answer: {words}.", next_command="lockstep dev up")
