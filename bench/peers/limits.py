"""Measures the limits of this machine: rows that are COPY's bytes already, and records that are read and dropped."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg2
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from peers.contender import KEYED_LIMIT, started
from peers.workload import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from peers.contender import Place, Task


@dataclass(slots=True)
class BareCopy:
    """The produced rows, made to bytes beforehand. One connection or several copy them, each in one transaction."""

    _place: Place | None = None
    _bytes: dict[str, list[bytes]] = field(default_factory=dict)

    def start(self, place: Place) -> None:
        """Remembers the servers. Nothing must be warm."""
        self._place = place

    def prepare(self, task: Task) -> None:
        """Makes as many parts as connections, in the form that COPY takes."""
        number = int(task.option("connections"))
        self._bytes = {task.table: [self._part(task, each, number) for each in range(number)]}

    def run(self, task: Task) -> Mapping[str, float]:
        """Copies all parts side by side."""
        with ThreadPoolExecutor(len(self._bytes[task.table])) as threads:
            list(threads.map(lambda part: self._copied(task, part), self._bytes[task.table]))
        return {}

    def finish(self) -> None:
        """Does nothing, because nothing goes on."""

    def end(self) -> None:
        """Does nothing, because nothing was started."""

    def _part(self, task: Task, which: int, number: int) -> bytes:
        # A part holds whole partitions where there are enough: connections then fill different ends of the key.
        partitions = ", ".join(map(str, task.workload.shares(task.partitions, number)[which]))
        share = f"_stream in ({partitions})" if task.partitions >= number else f"seq % {number} = {which}"
        expected = task.workload.first.expected.format(topic=task.topic)
        rows = f"select {', '.join(_names(task))} from ({expected}) as expected where {share} order by seq"
        out = io.BytesIO()
        with closing(psycopg2.connect(self._dsn)) as conn, conn.cursor() as cur:
            cur.copy_expert(f"copy ({rows}) to stdout (format {task.option('format')})", out)
        return out.getvalue()

    def _copied(self, task: Task, part: bytes) -> None:
        with closing(psycopg2.connect(self._dsn)) as conn, conn, conn.cursor() as cur:
            names = ", ".join(_names(task))
            statement = f"copy public.{task.table} ({names}) from stdin (format {task.option('format')})"
            cur.copy_expert(statement, io.BytesIO(part), size=1 << 18)

    @property
    def _dsn(self) -> str:
        return started(self._place).superuser_dsn


def _names(task: Task) -> tuple[str, ...]:
    return (*task.workload.names, *ORIGIN) if task.kind == KEYED_LIMIT else task.workload.names


# For all readers with librdkafka: none waits for bytes that will not come, or for a queue that was full for a moment.
TUNED = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 5,
}


@dataclass(slots=True)
class BareConsume:
    """A reader in Python with librdkafka, from the first record to the last, by thousands."""

    _bootstrap: str = ""

    def start(self, place: Place) -> None:
        """Remembers the broker. Nothing must be warm."""
        self._bootstrap = place.bootstrap

    def prepare(self, task: Task) -> None:
        """Does nothing, because no table is needed."""

    def run(self, task: Task) -> Mapping[str, float]:
        """Counts the records. Raises if their number is wrong."""
        options = {"bootstrap.servers": self._bootstrap, "group.id": "bench", "auto.offset.reset": "error"}
        consumer = Consumer(options | TUNED)
        consumer.assign([TopicPartition(task.topic, p, 0) for p in range(task.partitions)])
        seen = ends = 0
        while ends < task.partitions:
            for message in consumer.consume(10_000, 0.1):
                if is_end(message.error()):
                    ends += 1
                else:
                    seen += 1
        consumer.close()
        if seen != task.records:
            raise ValueError(f"{seen} records were read and {task.records} produced")
        return {}

    def finish(self) -> None:
        """Does nothing, because nothing goes on."""

    def end(self) -> None:
        """Does nothing, because nothing was started."""


def is_end(error: KafkaError | None) -> bool:
    """Returns True if this is a partition's end. Raises any error."""
    if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own name
        raise KafkaException(error)
    return error is not None
