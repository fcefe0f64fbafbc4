"""Provides a table whose feed is sent to a topic, and reads the topic as a stranger does, by a plain consumer.

As a program, it is one relay over LOCKSTEP_DSN: python sending.py KAFKA TOPIC SHAPE [RESTART_AT].
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
from confluent_kafka import Consumer, KafkaError, TopicPartition

from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import OWNER, PLANNER, transaction
from lockstep.adapters.processes import this_owner
from lockstep.core.changes.person import Person
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.definition import Avro, Feed, Json, Pipeline, Topic, Upsert
from lockstep.ledger.feed.make import make_feeds
from lockstep.steps.context import Context
from lockstep.steps.feed.relay import RelayReport, relay, restart
from support.scenes.odd_logs import settled

TESTS = Path(__file__).parent.parent
COLUMNS = "id string, n int, price decimal(30,12), at timestamp, raw binary, share double"
TABLE = """create table public.orders (id text primary key, n int, price numeric(30,12), at timestamptz, raw bytea,
    share float8, _stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null);
    alter table public.orders owner to lockstep_targets"""
PUT = """insert into public.orders values (%s, %s, %s, %s, %s, %s, 1, 0, 0, 0) on conflict (id) do update set
    n = excluded.n, price = excluded.price, at = excluded.at, raw = excluded.raw, share = excluded.share"""


def sent_to(topic: str, shape: str = "row", value: Avro | None = None) -> Pipeline:
    """Returns the pipeline whose feed goes there."""
    feed = Feed(to=Topic(topic, shape=shape, value=value))
    return Pipeline("orders", "orders.v1", Json(COLUMNS), Upsert("public.orders", key=("id",), feed=feed))


@dataclass
class Sending:
    """A table, the pipeline that sends its feed, and the topic."""

    dsn: str
    kafka: str
    pipeline: Pipeline
    at: Context = field(init=False)

    def __post_init__(self) -> None:
        self.at = Context(self.dsn, Broker(self.kafka))

    @property
    def target(self):
        return self.pipeline.first

    @property
    def topic(self) -> str:
        return self.target.feed.to.name

    def make(self) -> None:
        """Makes the table and its feed, as `migrate` does."""
        with transaction(self.at.conn, OWNER) as cur:
            cur.execute(TABLE)
            cur.execute("insert into lockstep.pipeline (name) values ('orders')")
            cur.execute(
                "insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.orders', 'orders')"
            )
            make_feeds(cur, self.pipeline)

    def change(self, *rows: tuple, gone: tuple[str, ...] = ()) -> None:
        """Commits one set of changes: rows that are put, and keys that are deleted."""
        with transaction(self.at.conn, OWNER) as cur:
            cur.execute("select lockstep.manual_change('public.orders', 'a test')")
            for row in rows:
                cur.execute(PUT, (*row, *(None for _ in range(6 - len(row)))))
            for key in gone:
                cur.execute("delete from public.orders where id = %s", (key,))

    def relay(self, owner: str = "") -> RelayReport:
        return relay(self.at, self.pipeline, self.target, owner or this_owner())

    def ask(self, query: str, *values: Any) -> list[tuple]:
        with closing(psycopg2.connect(self.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(query, values)
            return cur.fetchall()

    def knows(self) -> tuple:
        """Returns what the ledger knows: confirmed and intent."""
        ((confirmed, intent),) = self.ask("select confirmed, intent from lockstep.relay")
        return confirmed, intent

    @property
    def group(self) -> str:
        """Returns the consumer group of the relay's cursor."""
        return self.ask("select transactional_id from lockstep.relay")[0][0]

    def cursor(self) -> int:
        """Returns the offset of the relay's group, once its last transaction has its marker there."""
        settings = {"bootstrap.servers": self.kafka, "group.id": self.group, "isolation.level": "read_committed"}
        with closing(Consumer(settings)) as reader:
            (found,) = reader.committed([TopicPartition(self.topic, 0)], timeout=20)
        return found.offset

    def lease_runs_out(self) -> None:
        with transaction(self.at.conn, PLANNER) as cur:
            cur.execute("update lockstep.relay set held_until = '-infinity'")

    def started(self, fault: str = "", restart_at: int | None = None) -> subprocess.Popen[str]:
        """Starts a relay as a process, or a person's restart of it."""
        path = os.pathsep.join([str(TESTS.parent / "include"), str(TESTS)])
        shape = self.target.feed.to.shape
        anew = [] if restart_at is None else [str(restart_at)]
        command = [sys.executable, __file__, self.kafka, self.topic, shape, *anew]
        env = os.environ | {"PYTHONPATH": path, "LOCKSTEP_FAULT": fault, "LOCKSTEP_DSN": self.dsn}
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wrong(self) -> list[str]:
        """Returns what is wrong with the topic: numbers lost or doubled, keys out of order, rows that are not the table's."""
        found, rows, numbers = [], {}, []
        for partition, records in read_topic(self.kafka, self.topic).items():
            of_keys: dict[bytes, int] = defaultdict(lambda: -1)
            for key, value, headers in records:
                number = int(headers["lockstep.number"])
                if number <= of_keys[key]:
                    found.append(f"partition {partition}: {key!r} has number {number} behind {of_keys[key]}")
                of_keys[key] = number
                numbers.append(number)
                rows[key.decode()] = None if value is None else json.loads(value)
        confirmed, _ = self.knows()
        if sorted(numbers) != list(range(confirmed)):
            twice = sorted({n for n in numbers if numbers.count(n) > 1})
            found.append(f"{len(numbers)} numbers of {confirmed}; twice: {twice}")
        there = dict(self.ask("select id, n from public.orders"))
        told = {key: row["n"] for key, row in rows.items() if row is not None}
        if told != there:
            found.append(f"the topic says {told}, and the table is {there}")
        return found


def read_topic(kafka: str, topic: str) -> dict[int, list[tuple]]:
    """Returns the committed records of each partition: key, value and headers, in order.

    Waits for the markers of what was sent before, because a transaction's commit returns earlier.
    """
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": "a-stranger", "isolation.level": "read_committed",
         "enable.auto.commit": False, "enable.partition.eof": True}
    )  # fmt: skip
    parts = consumer.list_topics(topic, timeout=20).topics[topic].partitions
    for each in parts:
        settled(kafka, topic, each)
    consumer.assign([TopicPartition(topic, each, 0) for each in parts])
    found: dict[int, list[tuple]] = {each: [] for each in parts}
    left, until = set(parts), time.monotonic() + 60
    while left:
        assert time.monotonic() < until, f"{topic}: partitions {left} did not end"
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()  # noqa: SLF001 - its public name
            left.discard(message.partition())
            continue
        headers = {name: value.decode() for name, value in message.headers() or []}
        found[message.partition()].append((message.key(), message.value(), headers))
    consumer.close()
    return found


if __name__ == "__main__":
    kafka, topic, shape, *anew = sys.argv[1:]
    here = Sending(os.environ["LOCKSTEP_DSN"], kafka, sent_to(topic, shape))
    try:
        for number in anew:
            restart(here.at, here.pipeline, here.target, this_owner(), int(number), Person("me@here", "a test"))
        report = here.relay()
        print(json.dumps({"sent": report.sent, "stopped": str(report.stopped)}))
    except Refusal as refusal:
        print(json.dumps({"refused": type(refusal).__name__, "error": str(refusal)}))
