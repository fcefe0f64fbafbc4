"""Sends sample data to a broker, in order, each record once, from the topic's end on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from lockstep.core.errors import Refusal
from lockstep.dev.catalogue import SAMPLES
from lockstep.dev.records import topics
from lockstep.dev.records.sending import send

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.dev.records.samples import Sample


@dataclass(frozen=True, slots=True)
class Errand:
    """The order for sample data: a sample, a number of records, a seed, and a rate.

    The rate is in records per second, or None.
    """

    sample: Sample
    records: int
    seed: int = 0
    rate: float | None = None
    up_to: bool = False
    """`records` is then how many the topic is to hold, not how many more."""


def sample_named(name: str) -> Sample:
    """Returns the sample of that name. Raises `Refusal`, with all names, for an unknown one."""
    if name == "payments":
        raise Refusal(
            f"{name} reads Avro, and its records need a schema registry of your own",
            next_command=f"lockstep try {name} --file FILE.jsonl --envelope",
        )
    if name not in SAMPLES:
        known = ", ".join(sorted(SAMPLES))
        raise Refusal(
            f"no sample data is named {name}; there is {known}.",
            next_command=f"lockstep dev produce {name} --from FILE.jsonl",
        )
    return SAMPLES[name]


def produce(bootstrap: str, errand: Errand, advanced: Callable[[int], None]) -> int:
    """Creates the topic if needed, sends the records, and reports each chunk to `advanced`. Returns their number.

    A sample's place is the sum of the topic's end offsets, so each call goes on with new records.
    """
    topic = errand.sample.topic
    admin = AdminClient(topics.client(bootstrap))
    try:
        # A new topic's partitions answer no questions yet, and need not be asked.
        place = 0 if topics.create_topic(admin, topic, topics.PARTITIONS) else _end(admin, topic)
    except KafkaException as error:
        raise topics.away(bootstrap, error.args[0].str()) from None
    except TimeoutError:
        raise topics.late(bootstrap) from None
    wanted = max(0, errand.records - place) if errand.up_to else errand.records
    send(bootstrap, topic, errand.sample.records(errand.seed, place, wanted), advanced, rate=errand.rate)
    return wanted


def _end(admin: AdminClient, topic: str) -> int:
    partitions = admin.list_topics(topic, timeout=topics.PATIENCE_SECONDS).topics[topic].partitions
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
    answers = admin.list_offsets(asked, request_timeout=topics.PATIENCE_SECONDS)
    return sum(answer.result(topics.PATIENCE_SECONDS).offset for answer in answers.values())
