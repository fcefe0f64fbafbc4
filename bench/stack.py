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

import psycopg2
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lockstep.adapters.postgres import connect
from lockstep.dev.servers import kafka, postgres
from lockstep.ledger.migrate import migrate

TOPIC, PARTITIONS = "guarantees.v1", 4
SECONDS = 400


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

    def fill(self, records: int) -> Counter[tuple[int, int]]:
        """Produces the topic's records. Returns the (partition, offset) that a separate reader finds there."""
        admin = AdminClient({"bootstrap.servers": self.kafka})
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(30)
        producer = Producer({"bootstrap.servers": self.kafka, "linger.ms": 20})
        for n in range(records):
            producer.produce(self.topic, json.dumps({"id": f"r{n}", "n": n}), f"k{n}", partition=n % PARTITIONS)
            producer.poll(0)
        producer.flush(60)
        options = {"bootstrap.servers": self.kafka, "group.id": "bench", "enable.partition.eof": True}
        consumer = Consumer(options | {"auto.offset.reset": "error", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self.topic, p, 0) for p in range(PARTITIONS)])
        found: Counter[tuple[int, int]] = Counter()
        ends = 0
        while ends < PARTITIONS:
            for message in consumer.consume(10_000, 1):
                if message.error():
                    ends += 1
                else:
                    found[message.partition(), message.offset()] += 1
        consumer.close()
        return found

    def call(self, *words: str, fault: str = "") -> str:
        """Runs a command and returns its output.

        It uses files instead of pipes, because Spark's workers outlive a killed driver for a while.
        """
        out, err = self.home / "out", self.home / "err"
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                [str(Path(sys.executable).with_name("lockstep")), *words],
                env=self.environ | {"LOCKSTEP_FAULT": fault},
                stdout=to_out,
                stderr=to_err,
                start_new_session=True,
            )
            self.groups.append(process.pid)
            code = process.wait(SECONDS)
        if code != (-SIGKILL if fault else 0):
            raise SystemExit(f"lockstep {' '.join(words)} ended with {code}: {err.read_text().strip()}")
        return out.read_text()


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
