"""Does odd things to the logs of a real broker, and reads them independently of the product."""

from __future__ import annotations

import ctypes
import itertools
import json
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COMPACTED: dict[str, Any] = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": 0.001,
    "min_compaction_lag_ms": 0,
    "delete_retention_ms": 0,
}


@cache  # a client that is gone keeps its answers to itself
def admin(kafka: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka, "reconnect.backoff.max.ms": 200, "log_level": 0})


def send_with_header(kafka: str, topic: str, header: bytes, value: bytes, partition: int = 0) -> None:
    """Sends a record with one header of any name. Python's own producer takes text alone."""
    library = ctypes.CDLL(str(next(Path(f"{confluent_kafka.__path__[0]}.libs").glob("librdkafka-*"))))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
        getattr(library, name).restype = ctypes.c_void_p
    conf, said, size = ctypes.c_void_p(library.rd_kafka_conf_new()), ctypes.create_string_buffer(512), ctypes.c_size_t
    library.rd_kafka_conf_set(conf, b"bootstrap.servers", kafka.encode(), said, size(512))
    client = ctypes.c_void_p(library.rd_kafka_new(0, conf, said, size(512)))
    headers = ctypes.c_void_p(library.rd_kafka_headers_new(size(1)))
    assert library.rd_kafka_header_add(headers, header, ctypes.c_ssize_t(len(header)), b"v", ctypes.c_ssize_t(1)) == 0
    tags = {"topic": 1, "partition": 3, "value": 4, "headers": 10, "end": 0}
    number = {name: ctypes.c_int(tag) for name, tag in tags.items()}
    where = (number["topic"], topic.encode(), number["partition"], ctypes.c_int(partition))
    what = (number["value"], value, size(len(value)), number["headers"], headers, number["end"])
    assert library.rd_kafka_producev(client, *where, *what) == 0
    assert library.rd_kafka_flush(client, 10_000) == 0
    library.rd_kafka_destroy(client)


def records(n: int, start: int = 0) -> list[tuple[str, str]]:
    return [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(start, start + n)]


def offsets_in(kafka: str, topic: str, partition: int = 0, *, committed: bool = True) -> list[int]:
    """Returns the offsets of `messages_in`."""
    return [message.offset() for message in messages_in(kafka, topic, partition, committed=committed)]


def messages_in(kafka: str, topic: str, partition: int = 0, *, committed: bool = True) -> list[Message]:
    """Returns what a reader gets, from the log's start until no more comes.

    A committed reader waits for the transactions that are open. They must end.
    """
    if committed:
        settled(kafka, topic, partition)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "odd",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
        }
    )
    consumer.assign([TopicPartition(topic, partition, log_start(kafka, topic, partition))])
    found = []
    try:
        while True:
            message = consumer.poll(10)
            assert message is not None, "no answer"
            if message.error():
                return found
            found.append(message)
    finally:
        consumer.close()


def log_start(kafka: str, topic: str, partition: int = 0) -> int:
    return _offset(kafka, topic, partition, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)


def stable_end(kafka: str, topic: str, partition: int = 0) -> int:
    return _offset(kafka, topic, partition, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)


def high_end(kafka: str, topic: str, partition: int = 0) -> int:
    return _offset(kafka, topic, partition, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)


def marked(kafka: str, topic: str, end: int, partition: int = 0) -> None:
    """Waits until the log ends here for a committed reader.

    A marker is written long after its commit has returned.
    """
    until(lambda: stable_end(kafka, topic, partition) >= end, f"{topic}-{partition}: no marker below {end}")


def settled(kafka: str, topic: str, partition: int = 0) -> int:
    """Waits until each transaction below the log's end as it is now has its marker. Returns that end.

    A committed reader that comes before the markers does not get the transaction's records.
    """
    end = high_end(kafka, topic, partition)
    until(lambda: stable_end(kafka, topic, partition) >= end, f"{topic}-{partition}: a transaction is open below {end}")
    return end


def delete_records(kafka: str, topic: str, before: int, partition: int = 0) -> None:
    """Deletes the records below `before`, so that the log starts there."""
    where = TopicPartition(topic, partition, before)
    admin(kafka).delete_records([where])[where].result(10)
    assert log_start(kafka, topic, partition) == before


def recreate(kafka: str, topic: str, partitions: int = 3) -> None:
    """Makes another topic of the same name, as soon as the broker has forgotten the old one. Waits until it answers for it."""
    client = admin(kafka)
    old = topic_id(kafka, topic)
    client.delete_topics([topic])[topic].result(20)

    def made() -> bool:
        try:
            client.create_topics([NewTopic(topic, partitions, 1)])[topic].result(10)
        except Exception:  # noqa: BLE001 - "already exists" until it does not
            return False
        return True

    until(made, "the old topic would not go")
    admin.cache_clear()  # behind a restart of the broker, a client takes the new topic's leader epoch for an old one
    until(
        lambda: _ends(kafka, topic, partitions) == [0] * partitions and topic_id(kafka, topic) != old,
        "the new topic was not heard of",
    )


def topic_id(kafka: str, topic: str) -> str:
    """Returns the topic's id, as the broker knows it."""
    described = admin(kafka).describe_topics(TopicCollection([topic]))[topic]
    return str(described.result(20).topic_id)


def grow(kafka: str, topic: str, partitions: int) -> None:
    """Gives the topic more partitions, so that it has this many. Waits until the broker answers for them."""
    admin(kafka).create_partitions([NewPartitions(topic, partitions)])[topic].result(20)
    until(lambda: len(_ends(kafka, topic, partitions)) == partitions, f"{topic} would not grow")


def compact(kafka: str, topic: str, below: int, partition: int = 0) -> None:
    """Rolls the log and waits until compaction has left holes below this offset, where there were only records."""
    _hurry_the_cleaner(kafka)
    alter(kafka, ConfigResource.Type.TOPIC, topic, [("segment.ms", "50")])
    time.sleep(0.06)  # the segment is older than that now, so a record behind it begins another
    producer, keys = Producer({"bootstrap.servers": kafka}), itertools.count()

    def has_holes() -> bool:
        """Sends one more record each time, because the broker applies the setting long after it has acknowledged it."""
        producer.produce(topic, json.dumps({"id": "roll", "n": -1}), f"roll{next(keys)}", partition=partition)
        producer.flush(10)
        return sum(o < below for o in offsets_in(kafka, topic, partition)) < below

    until(has_holes, "the log was never compacted")


def until(true: Callable[[], bool], otherwise: str, seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.2)


def alter(kafka: str, kind: ConfigResource.Type, name: str, settings: Iterable[tuple[str, str]]) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in settings]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for done in admin(kafka).incremental_alter_configs([resource]).values():
        done.result(10)


def _hurry_the_cleaner(kafka: str) -> None:
    """Shortens the cleaner's sleep. By default it sleeps 15 seconds when it found nothing."""
    for node in admin(kafka).list_topics(timeout=10).brokers:
        alter(kafka, ConfigResource.Type.BROKER, str(node), [("log.cleaner.backoff.ms", "100")])


def _ends(kafka: str, topic: str, partitions: int) -> list[int]:
    """Returns the ends of all logs, or none while one is unknown. The broker hears of them later than its controller."""
    try:
        return [high_end(kafka, topic, partition) for partition in range(partitions)]
    except KafkaException:
        admin.cache_clear()  # a client that has looked at the topic before does not ask for the new partitions' leaders
        return []


def _offset(kafka: str, topic: str, partition: int, spec: OffsetSpec, isolation: IsolationLevel) -> int:
    where = TopicPartition(topic, partition)
    return admin(kafka).list_offsets({where: spec}, isolation_level=isolation)[where].result(10).offset
