"""Copies a topic as MirrorMaker does: committed records alone, with key, value, time and headers, at other offsets."""

from __future__ import annotations

import json
import threading
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from support.scenes.odd_logs import settled


class Sending(threading.Thread):
    """A producer of transactions of twenty records. It sends to `topic`, which may change while it runs."""

    def __init__(self, kafka: str, topic: str, first: int) -> None:
        super().__init__(daemon=True)
        self.kafka, self.topic, self.next, self.over = kafka, topic, first, threading.Event()
        self.producer = Producer({"bootstrap.servers": kafka, "transactional.id": f"of {topic}", "linger.ms": 1})
        self.producer.init_transactions(30)
        self.start()

    def run(self) -> None:
        while not self.over.wait(0.02):
            self.producer.begin_transaction()
            for n in range(self.next, self.next + 20):
                value = json.dumps({"id": f"s{n % 60}", "n": n})
                self.producer.produce(self.topic, value, f"s{n % 60}", headers=[("n", str(n).encode())])
            self.producer.commit_transaction(30)
            self.next += 20

    def stop(self) -> int:
        self.over.set()
        self.join(30)
        for partition in self.producer.list_topics(self.topic, timeout=20).topics[self.topic].partitions:
            settled(self.kafka, self.topic, partition)  # the last commit has returned before its markers are written
        return self.next


class Mirror(threading.Thread):
    """A copy that goes on until it is stopped. `until` waits for the end of every partition as it is by then."""

    def __init__(self, kafka: str, source: str, copy: str, partitions: int, to: str | None = None) -> None:
        super().__init__(daemon=True)
        self.source, self.copy, self.partitions = source, copy, partitions
        settings: dict[str, Any] = {
            "bootstrap.servers": kafka,
            "group.id": f"mirror {copy}",
            "enable.auto.commit": False,
        }
        settings |= {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 20}
        self.consumer = Consumer(settings)
        self.consumer.assign([TopicPartition(source, p, 0) for p in range(partitions)])
        self.producer = Producer({"bootstrap.servers": to or kafka, "linger.ms": 5, "enable.idempotence": True})
        self.over, self.copied = threading.Event(), 0
        self.start()

    def run(self) -> None:
        while not self.over.is_set():
            for message in self.consumer.consume(500, 0.05):
                assert message.error() is None, message.error()
                copy_of(message, self.producer, self.copy)
                self.copied += 1
            self.producer.flush(20)

    def stop(self) -> None:
        self.over.set()
        self.join(30)
        self.consumer.close()


def copy_of(message: Any, producer: Producer, topic: str) -> None:
    """Sends a record to the same partition of another topic, as it is."""
    producer.produce(
        topic,
        message.value(),
        message.key(),
        partition=message.partition(),
        timestamp=message.timestamp()[1],
        headers=message.headers() or [],
    )


def copied_once(kafka: str, source: str, copy: str, partitions: int, to: str | None = None) -> None:
    """Copies what the source holds now, to another cluster perhaps."""
    for partition in range(partitions):
        settled(kafka, source, partition)
    settings = {"bootstrap.servers": kafka, "group.id": "once", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.partition.eof": True})
    producer, ended = Producer({"bootstrap.servers": to or kafka}), 0
    consumer.assign([TopicPartition(source, p, 0) for p in range(partitions)])
    while ended < partitions:
        message = consumer.poll(10)
        assert message is not None, "no answer"
        if message.error():
            ended += 1
        else:
            copy_of(message, producer, copy)
    producer.flush(20)
    consumer.close()
