"""Runs a separate broker, ledger and warehouse, with one topic, and calls `lockstep` as a person would."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from signal import SIGKILL
from typing import NamedTuple

import psycopg2
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lockstep.adapters.postgres import connect
from lockstep.dev.servers import kafka, postgres
from lockstep.ledger.migrate import migrate

TOPIC, PARTITIONS = "guarantees.v1", 4
SECONDS = 400
# Ends of texts that a careless writer would change: quotes, a backslash, an escape of COPY, a tab, characters of four bytes.
ODD = ("", ' "q"', "\\", "\\N", "\t", "\U0001f600", "\u00e9,;")


class Record(NamedTuple):
    """A record of the topic, with its values."""

    partition: int
    offset: int
    id: str
    n: int


class Calls:
    """Calls of `lockstep` from one folder, on a broker, a migrated ledger and a warehouse that run already."""

    def __init__(self, home: Path, kafka: str, addresses: dict[str, str], topic: str = TOPIC) -> None:
        self.home, self.kafka, self.addresses, self.topic = home, kafka, addresses, topic
        self.environ = os.environ | {
            "LOCKSTEP_DSN": addresses["ledger"],
            "LOCKSTEP_KAFKA": kafka,
            "LOCKSTEP_STORE_WAREHOUSE": addresses["warehouse"],
            "LOCKSTEP_PIPELINES": str(home / "pipelines"),
        }
        self.groups: list[int] = []

    def end(self) -> None:
        """Ends every process that a call has left."""
        for group in self.groups:
            with suppress(ProcessLookupError):
                os.killpg(group, SIGKILL)

    def fill(self, records: int) -> Counter[Record]:
        """Produces the topic's records and returns them. Fails if a separate reader finds others in the topic."""
        admin = AdminClient({"bootstrap.servers": self.kafka})
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(30)
        producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 20, "enable.idempotence": True})
        produced = Counter(
            Record(n % PARTITIONS, n // PARTITIONS, f"r{n}{ODD[n % len(ODD)]}", n) for n in range(records)
        )
        for record in produced:
            producer.produce(
                self.topic, json.dumps({"id": record.id, "n": record.n}), f"k{record.n}", partition=record.partition
            )
            producer.poll(0)
        producer.flush(60)
        if self._read() != produced:
            raise SystemExit(f"topic {self.topic} does not hold the records that were produced")
        return produced

    def _read(self) -> Counter[Record]:
        """Reads the topic to its end."""
        options = {"bootstrap.servers": self.kafka, "group.id": "bench", "enable.partition.eof": True}
        consumer = Consumer(options | {"auto.offset.reset": "error", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self.topic, p, 0) for p in range(PARTITIONS)])
        found: Counter[Record] = Counter()
        ends = 0
        while ends < PARTITIONS:
            for message in consumer.consume(10_000, 1):
                if message.error():
                    ends += 1
                else:
                    value = json.loads(message.value())
                    found[Record(message.partition(), message.offset(), value["id"], value["n"])] += 1
        consumer.close()
        return found

    def call(self, *words: str) -> str:
        """Runs a command and returns its output."""
        return self.finish(self.start(*words))

    def start(self, *words: str, fault: str = "", master: str = "") -> subprocess.Popen[bytes]:
        """Starts a command, in a process group of its own.

        It uses files instead of pipes, because Spark's workers outlive a killed driver for a while.
        """
        more = {"LOCKSTEP_FAULT": fault} | ({"SPARK_MASTER": master} if master else {})
        with self._out.open("wb") as to_out, self._err.open("wb") as to_err:
            process = subprocess.Popen(
                [str(Path(sys.executable).with_name("lockstep")), *words],
                env=self.environ | more,
                stdout=to_out,
                stderr=to_err,
                start_new_session=True,
            )
        self.groups.append(process.pid)
        return process

    def finish(self, process: subprocess.Popen[bytes], expected: int = 0) -> str:
        """Waits for the last started command and returns its output. Fails if it ends with another code."""
        code = process.wait(SECONDS)
        if code != expected:
            raise SystemExit(f"{process.args!r} ended with {code} instead of {expected}: {self.errors()}")
        return self._out.read_text()

    def errors(self) -> str:
        """Returns what the last command has written to standard error."""
        return self._err.read_text().strip()

    @property
    def _out(self) -> Path:
        return self.home / "out"

    @property
    def _err(self) -> Path:
        return self.home / "err"


class Stack(Calls):
    """Servers below one folder, which end with it."""

    def __init__(self, home: Path) -> None:
        server = postgres.start(home)
        addresses = {name: self._database(server, name) for name in ("ledger", "warehouse")}
        with closing(connect(addresses["ledger"])) as conn:
            migrate(conn)
        super().__init__(home, kafka.start(home / "kafka").bootstrap, addresses)

    def end(self) -> None:
        """Ends everything that was started."""
        super().end()
        if broker := kafka.running(self.home / "kafka"):
            kafka.stop(broker)
        postgres.remove_server(self.home)

    @staticmethod
    def _database(server: postgres.Server, name: str) -> str:
        with closing(psycopg2.connect(server.superuser_dsn)) as admin:
            admin.autocommit = True
            with suppress(psycopg2.errors.DuplicateDatabase):  # of servers that an earlier call has left
                admin.cursor().execute(f"create database bench_{name} owner lockstep")
        return re.sub(r"/\w+$", f"/bench_{name}", server.dsn)
