"""Runs Flink SQL from Kafka to JDBC: one JVM with a small cluster that stays up.

Each run is a bounded INSERT.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # type: ignore[import-untyped]

from lockstep.adapters import java
from peers.contender import UNKEYED, UPSERT, cores, started
from peers.workload import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from peers.contender import Place, Task

OPENED = ("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent")
COLUMNS = "id STRING, seq BIGINT, part INT, customer STRING, amount DECIMAL(12, 2), quantity INT, paid BOOLEAN"
NAMES = "id, seq, part, customer, amount, quantity, paid, CAST(placed_at AS TIMESTAMP(3))"
READ = ", _stream INT METADATA FROM 'partition' VIRTUAL, _offset BIGINT METADATA FROM 'offset' VIRTUAL"
WRITTEN = ", _stream INT, _offset BIGINT"
SOURCE = """CREATE TEMPORARY TABLE {table}_in ({columns}, placed_at TIMESTAMP_LTZ(3){read}) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
    'properties.fetch.max.wait.ms' = '10', 'properties.isolation.level' = 'read_committed',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
    'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601')"""
SINK = """CREATE TEMPORARY TABLE {table} ({columns}, placed_at TIMESTAMP(3){written}{key}) WITH (
    'connector' = 'jdbc', 'url' = '{url}', 'table-name' = 'public.{table}', 'username' = '{user}',
    'password' = '{password}', 'sink.buffer-flush.max-rows' = '{rows}', 'sink.buffer-flush.interval' = '1s')"""


@dataclass(slots=True)
class Flink:
    """A session over py4j, with as many slots as there are partitions, at most twice the cores."""

    _place: Place | None = None
    _gateway: Any = None
    _tables: Any = None
    _cluster: Any = None

    def start(self, place: Place) -> None:
        """Starts the JVM and its cluster."""
        self._place = place
        options = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED]
        port, token = launch_gateway(
            classpath=os.pathsep.join(sorted(map(str, (place.jars / "flink").glob("*.jar")))),
            javaopts=["-Xmx2g", "-Duser.timezone=UTC", *options],
            java_path=str(java.find_java()),
            die_on_exit=True,
            enable_auth=True,
            return_proc=False,
        )
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
        )
        flink = self._gateway.jvm.org.apache.flink
        configuration = flink.configuration.Configuration()
        for name, value in {
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.bind-port": "0",
        }.items():
            configuration.setString(name, value)
        wanted = flink.runtime.minicluster.MiniClusterConfiguration.Builder().setConfiguration(configuration)
        self._cluster = flink.runtime.minicluster.MiniCluster(
            wanted.setNumTaskManagers(1).setNumSlotsPerTaskManager(_slots(1 << 10)).build()
        )
        self._cluster.start()
        address = self._cluster.getRestAddress().get()
        settings = flink.table.api.EnvironmentSettings.newInstance().inStreamingMode().build()
        self._tables = flink.table.api.TableEnvironment.create(settings)
        self._set("execution.target", "remote")
        self._set("rest.address", address.getHost())
        self._set("rest.port", str(address.getPort()))
        self._set("table.local-time-zone", "UTC")
        self._set("pipeline.object-reuse", "true")

    def prepare(self, task: Task) -> None:
        """Defines both tables for Flink."""
        place = started(self._place)
        url, user, password = place.jdbc
        facts = {"table": task.table, "topic": task.topic, "bootstrap": place.bootstrap, "columns": COLUMNS}
        facts |= {"read": "", "written": ""} if task.kind == UNKEYED else {"read": READ, "written": WRITTEN}
        self._tables.executeSql(SOURCE.format(**facts))
        key = ", PRIMARY KEY (id) NOT ENFORCED" if task.kind == UPSERT else ""
        facts |= {"key": key, "url": url, "user": user, "password": password, "rows": task.option("max-rows")}
        self._tables.executeSql(SINK.format(**facts))
        self._set("parallelism.default", str(_slots(task.partitions)))

    def run(self, task: Task) -> Mapping[str, float]:
        """Runs the statement until the end of its job, as the cluster itself reports it.

        A result's own `await` asks a remote cluster at 0.3, 0.6, 1.3, 2.6 seconds, and every two seconds from there.
        """
        names = NAMES if task.kind == UNKEYED else ", ".join((NAMES, *ORIGIN))
        statement = f"INSERT INTO {task.table} SELECT {names} FROM {task.table}_in"
        job = self._tables.executeSql(statement).getJobClient().get().getJobID()
        result = self._cluster.requestJobResult(job).get()  # answered when the job ends, and not at the next look
        if not result.isSuccess():
            raise ValueError(_reason(result))
        return {}

    def finish(self) -> None:
        """Does nothing, because a bounded job has ended."""

    def end(self) -> None:
        """Ends the JVM with the gateway."""
        if self._gateway:
            self._gateway.shutdown()

    def _set(self, name: str, value: str) -> None:
        self._tables.getConfig().set(name, value)


def _reason(result: Any) -> str:
    """Returns the innermost cause of a failed job."""
    thrown = result.getSerializedThrowable()
    lines = (
        thrown.get().getFullStringifiedStackTrace().splitlines() if thrown.isPresent() else ["the job was cancelled"]
    )
    return next((line for line in reversed(lines) if line.startswith("Caused by")), lines[0])


def _slots(partitions: int) -> int:
    return min(partitions, max(4, 2 * cores()))
