"""Runs the plain way of an Airflow task: consume, json.loads, execute_values, commit the rows, then the offsets."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg2
from confluent_kafka import Consumer
from psycopg2.extras import execute_values

from peers.contender import started
from peers.limits import TUNED, is_end
from peers.orders import NAMES
from peers.workload import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from peers.contender import Place, Task

AT_ONCE, PAGE = 10_000, 1_000


@dataclass(slots=True)
class Plain:
    """A consumer group that reads until every partition has come to its end."""

    _place: Place | None = None

    def start(self, place: Place) -> None:
        """Remembers the servers. Python is warm enough."""
        self._place = place

    def prepare(self, task: Task) -> None:
        """Does nothing, because no table is needed."""

    def run(self, task: Task) -> Mapping[str, float]:
        """Commits rows by ten thousands, and each time the group's offsets after them."""
        place = started(self._place)
        options = {"bootstrap.servers": place.bootstrap, "group.id": task.table, "auto.offset.reset": "earliest"}
        consumer = Consumer(options | TUNED)
        consumer.subscribe([task.topic])
        insert = f"insert into public.{task.table} ({', '.join((*NAMES, *ORIGIN))}) values %s"
        ended: set[int] = set()
        with closing(psycopg2.connect(place.superuser_dsn)) as conn:
            while len(ended) < task.partitions:
                rows = []
                for message in consumer.consume(AT_ONCE, 0.1):
                    if is_end(message.error()):
                        ended.add(message.partition())
                        continue
                    value = json.loads(message.value())
                    rows.append((*(value[name] for name in NAMES), message.partition(), message.offset()))
                if rows:
                    with conn, conn.cursor() as cur:
                        execute_values(cur, insert, rows, page_size=PAGE)
                    consumer.commit(asynchronous=False)
        consumer.close()
        return {}

    def finish(self) -> None:
        """Does nothing, because nothing goes on."""

    def end(self) -> None:
        """Does nothing, because nothing was started."""
