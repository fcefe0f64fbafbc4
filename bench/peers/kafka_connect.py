"""Runs Kafka Connect, standalone, with Debezium's JDBC sink: one warm worker, and a connector for each run."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError

import psycopg2

from lockstep.adapters import java
from lockstep.dev.servers import ports
from peers.contender import COUNTED, UPSERT, started

if TYPE_CHECKING:
    from collections.abc import Mapping

    from peers.contender import Place, Task

SECONDS_TO_START, SECONDS_TO_END, SECONDS_BETWEEN_LOOKS = 90, 400, 0.01
TASKS = 8  # one for each partition, as long as there are no more
SINK = "io.debezium.connector.jdbc.JdbcSinkConnector"
TYPES: dict[str, dict[str, Any]] = {
    "id": {"type": "string"},
    "seq": {"type": "int64"},
    "part": {"type": "int32"},
    "customer": {"type": "string"},
    "amount": {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2"},
    },
    "quantity": {"type": "int32"},
    "paid": {"type": "boolean"},
    "placed_at": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"},
}
WITH_ORIGIN: dict[str, Any] = {
    "transforms": "origin",
    "transforms.origin.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.origin.partition.field": "_stream!",
    "transforms.origin.offset.field": "_offset!",
}
LOGGING = """rootLogger.level=error
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m%n
"""


@dataclass(slots=True)
class KafkaConnect:
    """A session that looks at its table until all rows are there.

    A sink's progress shows nowhere else.
    """

    _place: Place | None = None
    _process: subprocess.Popen[bytes] | None = None
    _port: int = 0
    _awaited: tuple[int, int] = (0, 0)
    _connector: str = ""

    def start(self, place: Place) -> None:
        """Starts the worker, and waits for its answer."""
        self._place, self._port = place, ports.choose(place.home)
        folder = place.home / "connect"
        folder.mkdir()
        fields = [type_ | {"field": name} for name, type_ in TYPES.items()]
        settings = {
            "bootstrap.servers": place.bootstrap,
            "listeners": f"http://127.0.0.1:{self._port}",
            "offset.storage.file.filename": str(folder / "offsets"),
            "connector.client.config.override.policy": "All",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "true",
            "value.converter.schema.content": json.dumps({"type": "struct", "name": "record", "fields": fields}),
        }
        (folder / "worker.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (folder / "log4j2.properties").write_text(LOGGING)
        options = ["-Xmx1g", "-Duser.timezone=UTC", f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'}"]
        program = [str(java.find_java()), *options, "-cp", f"{place.jars / 'connect'}/*"]
        words = ["org.apache.kafka.connect.cli.ConnectStandalone", str(folder / "worker.properties")]
        self._process = subprocess.Popen([*program, *words])
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(URLError, ConnectionError, ValueError):
                self._called("GET", "/connectors")
                return
            time.sleep(0.2)
        raise TimeoutError(f"Kafka Connect did not answer within {SECONDS_TO_START} s")

    def prepare(self, task: Task) -> None:
        """Looks up the number of rows to wait for."""
        table = f"{task.topic}_newest" if task.kind == UPSERT else task.topic
        self._awaited = self._summed(f'produced."{table}"')

    def run(self, task: Task) -> Mapping[str, float]:
        """Waits until the table holds everything. The time counts from when all tasks of the connector are up."""
        self._called("POST", "/connectors", {"name": task.table, "config": self._sink(task)})
        self._connector = task.table
        while {each["state"] for each in self._tasks()} != {"RUNNING"}:
            self._require_alive()
            time.sleep(SECONDS_BETWEEN_LOOKS)
        begin = time.perf_counter()
        table, size, deadline = f"public.{task.table}", 0, time.monotonic() + SECONDS_TO_END
        with closing(psycopg2.connect(self._at.superuser_dsn)) as conn, conn.cursor() as cur:
            conn.autocommit = True
            while time.monotonic() < deadline:
                cur.execute(f"select pg_relation_size('{table}')")
                (now,) = cur.fetchone() or (0,)
                looked = time.perf_counter()  # rows that this look counts were there before it
                if now and now == size and self._summed(table) == self._awaited:
                    return {COUNTED: looked - begin}
                if now == size:
                    self._require_alive()
                size = now
                time.sleep(SECONDS_BETWEEN_LOOKS)
        raise TimeoutError(f"{table} did not hold all within {SECONDS_TO_END} s")

    def finish(self) -> None:
        """Removes the connector, which would otherwise look for records while others have their turn."""
        if self._connector:
            self._called("DELETE", f"/connectors/{self._connector}")
            self._connector = ""

    def end(self) -> None:
        """Ends the worker."""
        if self._process:
            self._process.kill()

    def _sink(self, task: Task) -> dict[str, str]:
        url, user, password = self._at.jdbc
        size = task.option("batch.size")
        upsert = {"insert.mode": "upsert", "primary.key.mode": "record_value", "primary.key.fields": "id"}
        upsert |= {"use.reduction.buffer": "true"}  # a key twice in one statement is refused by Postgres
        insert = {"insert.mode": "insert", "primary.key.mode": "none"}
        return {
            "connector.class": SINK,
            "topics": task.topic,
            "tasks.max": str(min(task.partitions, TASKS)),
            "connection.url": url,
            "connection.username": user,
            "connection.password": password,
            "collection.name.format": f"public.{task.table}",
            "schema.evolution": "none",
            "batch.size": size,
            "consumer.override.max.poll.records": size,
            "consumer.override.auto.offset.reset": "earliest",
            "consumer.override.fetch.max.wait.ms": "10",
            "consumer.override.heartbeat.interval.ms": "200",  # tasks find one another at once
            "consumer.override.isolation.level": "read_committed",
            **WITH_ORIGIN,
            **(upsert if task.kind == UPSERT else insert),
        }

    def _summed(self, table: str) -> tuple[int, int]:
        with closing(psycopg2.connect(self._at.superuser_dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(f"select count(*), coalesce(sum(seq), 0)::bigint from {table}")
            rows, total = cur.fetchone() or (0, 0)
        return rows, total

    def _require_alive(self) -> None:
        for task in self._tasks():
            if task["state"] == "FAILED":
                lines = [line for line in task["trace"].splitlines() if line.startswith("Caused by")]
                raise ValueError(lines[-1] if lines else task["trace"])

    def _tasks(self) -> list[dict[str, str]]:
        try:
            status = self._called("GET", f"/connectors/{self._connector}/status")
        except ValueError:  # not known yet
            return []
        tasks: list[dict[str, str]] = status["tasks"]
        return tasks

    def _called(self, method: str, path: str, document: Any = None) -> Any:
        data = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - the same
                return json.loads(answer.read() or b"null")
        except HTTPError as error:
            said = " ".join(re.sub("<[^>]*>", " ", error.read().decode(errors="replace")).split())
            raise ValueError(f"{method} {path}: {error.code} {said[:200]}") from None

    @property
    def _at(self) -> Place:
        return started(self._place)
