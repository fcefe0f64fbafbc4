"""Runs Structured Streaming with `trigger(availableNow=True)` and `foreachBatch`, writing by JDBC or by COPY."""

from __future__ import annotations

import os
import runpy
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg2
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.adapters import java
from lockstep.engine.spark import jvm
from peers.contender import LIMIT, UNKEYED, UPSERT, started
from peers.records import ORIGIN_DDL
from peers.spark_copy import copy
from peers.workload import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from peers.contender import Place, Task

BY_COPY = ("by", "copy")
READ_AS = {"partition": "_stream", "offset": "_offset"}
FETCH_WAIT_MS = "10"  # as ours has it
CORRUPT = "_corrupt_record"  # Spark's own name of the column for records that it cannot read
BROUGHT = """insert into public.{table} ({names})
select distinct on (id) {names} from public.{table}_stage order by id, seq desc
on conflict (id) do update set {assigned}"""


@dataclass(slots=True)
class AvailableNow:
    """A warm session with Lockstep's own settings of Spark. Each task is a query with its own checkpoint."""

    master: str = "local[*]"
    _place: Place | None = None
    _spark: SparkSession | None = None

    def start(self, place: Place) -> None:
        """Starts the session, with the connector and the driver."""
        self._place = place
        os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable} | java.exports()
        options = jvm.JVM_SETTINGS | {
            "spark.master": self.master,
            "spark.driver.memory": os.environ.get("LOCKSTEP_SPARK_MEMORY", "2g"),
            "spark.jars": ",".join(sorted(map(str, (place.jars / "spark").glob("*.jar")))),
            "spark.driver.extraJavaOptions": f"{jvm.driver_options()} -Duser.timezone=UTC",
        }
        builder = SparkSession.builder
        for name, value in options.items():
            builder = builder.config(name, value)
        self._spark = builder.getOrCreate()

    def prepare(self, task: Task) -> None:
        """Makes a table for rows that then replace others."""
        if task.kind == UPSERT:
            self._execute(f"create unlogged table public.{task.table}_stage ({task.workload.first.ddl}, {ORIGIN_DDL})")

    def run(self, task: Task) -> Mapping[str, float]:
        """Runs the query from its start to its end.

        `trigger` is the time that Spark itself reports for its triggers.
        """
        if task.kind == LIMIT:
            source = self._session.read.format("kafka").options(**self._source(task)).load()
            source.write.format("noop").mode("overwrite").save()
            return {}
        raw = self._session.readStream.format("kafka").options(**self._source(task)).load()
        origin = () if task.kind == UNKEYED else ORIGIN
        schema = f"{task.workload.schema}, {CORRUPT} string" if task.workload.bad_in else task.workload.schema
        record = F.from_json(F.col("value").cast("string"), schema).alias("record")
        records = raw.withColumnsRenamed(READ_AS).select(record, *origin).select("record.*", *origin)
        query = (
            records.writeStream.foreachBatch(self._writer(task))
            .option("checkpointLocation", f"file:{self._at.home / 'checkpoints' / task.table}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        took = [progress["durationMs"].get("triggerExecution", 0) for progress in query.recentProgress]
        return {"trigger": sum(took) / 1000}

    def finish(self) -> None:
        """Does nothing, because nothing goes on."""

    def end(self) -> None:
        """Stops the session. The JVM ends with the process."""
        if self._spark:
            self._spark.stop()

    def _source(self, task: Task) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self._at.bootstrap,
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.wait.ms": FETCH_WAIT_MS,
            "subscribe": task.topic,
            "startingOffsets": "earliest",
            "failOnDataLoss": "true",
        }

    def _writer(self, task: Task) -> Callable[[DataFrame, int], None]:
        """Returns the function that writes a batch to each table. What is written twice is kept from the first time."""
        workload, upsert = task.workload, task.kind == UPSERT
        made = runpy.run_path(workload.transforms) if workload.transforms else {}
        is_kept = bool(workload.bad_in) or len(workload.outputs) > 1

        def write(frame: DataFrame, _number: int) -> None:
            records = good = frame.persist() if is_kept else frame
            if workload.bad_in:
                good = records.where(F.col(CORRUPT).isNull()).drop(CORRUPT)
            if upsert:
                self._execute(f"truncate public.{task.table}_stage")
            for output in workload.outputs:
                rows = made[output.transform](good) if output.transform else good
                self._write(task, rows, f"public.{task.table}{output.suffix}{'_stage' * upsert}")
            if upsert:
                self._execute(_brought(task))
            if workload.bad_in:
                self._write(task, _rejects(records), f"public.{task.table}_rejects")
            if is_kept:
                records.unpersist()

        return write

    def _write(self, task: Task, rows: DataFrame, into: str) -> None:
        url, user, password = self._at.jdbc
        facts = {"user": user, "password": password, "driver": "org.postgresql.Driver"}
        if BY_COPY in task.options:
            copy(rows, self._at.superuser_dsn, into, int(task.option("tasks")))
            return
        if "batchsize" in dict(task.options):
            facts |= {"batchsize": task.option("batchsize"), "numPartitions": task.option("numPartitions")}
        rows.write.jdbc(url, into, mode="append", properties=facts)

    def _execute(self, statement: str) -> None:
        with closing(psycopg2.connect(self._at.superuser_dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(statement)

    @property
    def _session(self) -> Any:
        return self._spark

    @property
    def _at(self) -> Place:
        return started(self._place)


def _rejects(records: DataFrame) -> DataFrame:
    return records.where(F.col(CORRUPT).isNotNull()).select(
        *ORIGIN, F.lit("not as the schema says").alias("reason"), F.encode(CORRUPT, "UTF-8").alias("value")
    )


def _brought(task: Task) -> str:
    names = (*task.workload.names, *ORIGIN)
    assigned = ", ".join(f"{name} = excluded.{name}" for name in names if name != "id")
    return BROUGHT.format(table=task.table, names=", ".join(names), assigned=assigned)
