"""Runs a real Airflow with its own pipelines. Their DAGs are triggered, killed, cleared and watched from outside."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.dev.servers import airflow, ports, processes, spark_connect
from lockstep.dev.servers.airflow_settings import AirflowPlace
from lockstep.dev.setup import jars
from lockstep.installed import CHECKOUT
from lockstep.ledger.migrate import migrate_target
from support.oracles.checker import at_end, check
from support.servers.servers import make_topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from lockstep.dev.servers.spark_connect import SparkServer

PIPELINE = """
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline
P = Pipeline(
    name="{name}", topic="{topic}", format=Json("id string, n int"), target=Append("public.{name}"),
    limits=Limits(records=10_000), owner="tests", start="{start}",
)
"""
TARGET = """
create table if not exists public.{name} (id text, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));
"""
# If the mark is there when reading begins, reading takes about half a minute: time enough to be killed in.
TRANSFORM = """
import time
from pathlib import Path
from pyspark.sql import functions as F

def transform(records):
    if not Path({mark!r}).exists():
        return records
    @F.udf("int")
    def slowly(n):
        time.sleep({pause})
        return n
    return records.withColumn("n", slowly("n"))
"""
DAG_FILE = """
from datetime import timedelta

from lockstep.adapters.folders import load
from lockstep.airflow import dag_for

dag = dag_for(
    load("{name}").pipeline, max_active_runs=2, is_paused_upon_creation=False,
    default_args={{"retry_delay": timedelta(seconds=3), "retries": {retries}}}, spark_conn_id="{spark}", tasks="{tasks}",
)
"""
BOTH = """
from datetime import timedelta

from lockstep.adapters.airflow.names import CronDataIntervalTimetable

from lockstep.adapters.folders import load
from lockstep.airflow import dags_for

dag, history = dags_for(
    load("{name}").pipeline, max_active_runs=2, is_paused_upon_creation=False,
    default_args={{"retry_delay": timedelta(seconds=3)}}, spark_conn_id="{spark}",
    history={{"schedule": CronDataIntervalTimetable("@hourly", "UTC")}} | ({history} or {{}}),
)
"""
RECORDS = 150
WARM = "AIRFLOW_CONN_SPARK_CONNECT_DEFAULT"
OVER = {"success", "failed"}


@contextmanager
def an_airflow(servers, home: Path, *, more: Mapping[str, str] | None = None, **place: Any) -> Iterator[House]:
    """Yields an Airflow below the folder with its own ledger. All of it is gone after the block."""
    token = spark_connect.token_of(home)
    warm = {"conn_type": "spark_connect", "host": "localhost", "port": ports.choose(home / "spark"), "password": token}
    more = {**(more or {}), WARM: json.dumps(warm)}
    for name in ("dags", "pipelines"):
        (home / name).mkdir()
    unique = f"{home.name.replace('-', '_')}_{os.getpid()}"
    with servers.database(f"ledger_{unique}") as dsn, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCKSTEP_PIPELINES", str(home / "pipelines"))
        folders = (home / "dags", CHECKOUT / "plugins", home / "pipelines", jars.folder())
        metadata = f"airflow_{unique}"
        yield House(home, AirflowPlace(dsn, servers.kafka().bootstrap, *folders, metadata=metadata, more=more, **place))
        if server := spark_connect.running(home):
            spark_connect.kill(server)
        if left := airflow.running(home):
            airflow.stop(left)
        servers.drop(metadata)


@dataclass
class House:
    """One Airflow, one ledger, and the folders of its pipelines and DAGs."""

    home: Path
    place: AirflowPlace

    def __post_init__(self) -> None:
        self.airflow = airflow.start(self.home, self.place)
        self.api = self.airflow.api(seconds=120)  # a busy machine answers late

    def pipeline(  # noqa: PLR0913 - each is a difference that a test makes
        self,
        name: str,
        *,
        slow: bool = False,
        pause: float = 0.4,
        past: Sequence[datetime] = (),
        spark: str = "spark_default",
        history: str = "None",
        plain: tuple[str, str] | None = None,
        tasks: str = "each",
    ) -> Scheduled:
        """Makes a pipeline with records on its topic, a table, and a DAG that Airflow has parsed.

        A `slow` one makes a `pause` of so many seconds at each record. With a `past` it has records of those moments,
        starts behind them, and has its history DAG, too. A `plain` one has another definition and table, and no transform.
        """
        folder, topic = self.place.pipelines / name, f"{self.place.metadata}-{name}"
        folder.mkdir()
        make_topic(self.place.kafka, topic, partitions=2)
        made = Scheduled(self, name, topic, self.place.pipelines.parent / f"{name}.slow")
        made.mark.touch() if slow else None
        definition, table = plain or (PIPELINE, TARGET)
        start = "latest" if past else "earliest"
        (folder / "__init__.py").write_text(definition.format(name=name, topic=topic, start=start))
        (folder / "target.sql").write_text(table.format(name=name))
        if plain is None:
            (folder / "transform.py").write_text(TRANSFORM.format(mark=str(made.mark), pause=pause))
        conn = connect(self.place.dsn)
        migrate_target(conn, load(name))
        conn.close()
        made.send(len(past) or RECORDS, past)
        retries = 2 if spark == "spark_default" else 6  # a server that a test kills takes a while to start again
        (self.place.dags / f"{name}.py").write_text(
            (BOTH if past else DAG_FILE).format(name=name, spark=spark, history=history, retries=retries, tasks=tasks)
        )
        wanted = {name, f"{name}_history"} if past else {name}
        wait_for(lambda: wanted <= self.api.dags().keys(), "the DAG is parsed", 300.0)
        return made

    def warm(self) -> SparkServer:
        """Returns the Spark Connect server of `spark_connect_default`. Starts it if it does not run."""
        port = json.loads(self.place.more[WARM])["port"]
        return spark_connect.start(self.home, port)

    def jvms(self) -> list[int]:
        """Returns the Java programs that this Airflow has started."""
        ours = processes.having(f"AIRFLOW_HOME={self.airflow.folder}")
        return [pid for pid in ours if "org.apache.spark" in processes.command_line(pid)]


@dataclass
class Scheduled:
    """One pipeline of the house and its DAG of the same name."""

    house: House
    name: str
    topic: str
    mark: Path

    def send(self, records: int, moments: Sequence[datetime] = ()) -> None:
        """Sends so many records, with the given moments as their timestamps."""
        producer = Producer({"bootstrap.servers": self.house.place.kafka})
        for i in range(records):
            when = int(moments[i].timestamp() * 1000) if moments else 0
            producer.produce(self.topic, json.dumps({"id": f"r{i}", "n": i}), f"k{i}", timestamp=when)
        producer.flush(20)

    def recreate_topic(self) -> None:
        """Makes another log under the same name."""
        admin = AdminClient({"bootstrap.servers": self.house.place.kafka})
        admin.delete_topics([self.topic])[self.topic].result(20)
        wait_for(lambda: self.topic not in admin.list_topics(timeout=10).topics, "the topic is gone")
        make_topic(self.house.place.kafka, self.topic, partitions=2)

    def trigger(self, **conf: Any) -> str:
        return self.house.api.trigger(self.name, **conf)

    def tasks(self, run_id: str) -> dict[str, str]:
        return {name: task["state"] for name, task in self.house.api.tasks(self.name, run_id).items()}

    def over(self, run_id: str, seconds: float = 150.0) -> str:
        """Waits for the end of a run and returns its state."""

        def state() -> str | None:
            found = {run["dag_run_id"]: run["state"] for run in self.house.api.runs(self.name)}[run_id]
            return found if found in OVER else None

        return wait_for(state, f"{run_id} is over: {self.tasks(run_id)}", seconds)

    def reads(self) -> bool:
        """Returns True if Spark reads for this pipeline."""
        reading = (
            "select 1 from lockstep.attempt join lockstep.batch using (batch_id)"
            " where pipeline = %s and spark_application_id is not null and attempt.state = 'open'"
        )
        return bool(self.ask(reading, self.name))

    def until_reading(self) -> int:
        """Waits until Spark reads for this pipeline. Returns the pid of the task that started it."""
        wait_for(self.reads, "Spark reads", 90)
        ours = [pid for pid in self.house.jvms() if f" {self.name} " in f"{processes.command_line(pid)} "]
        environ = Path(f"/proc/{ours[0]}/environ").read_bytes().split(b"\0")
        (holder,) = [line for line in environ if line.startswith(b"LOCKSTEP_HOLDER=")]
        return int(holder.split(b"/")[1])

    def ask(self, query: str, *values: Any) -> list[tuple]:
        conn = psycopg2.connect(self.house.place.dsn)
        with conn, conn.cursor() as cur:
            cur.execute(query, values)
            rows = cur.fetchall()
        conn.close()
        return rows

    def batches(self) -> list[tuple[str, int]]:
        """Returns state and number of attempts of each batch of this pipeline, oldest first."""
        return self.ask(
            "select state, (select count(*) from lockstep.attempt a where a.batch_id = b.batch_id)::int"
            " from lockstep.batch b where pipeline = %s order by batch_id",
            self.name,
        )

    def violations(self) -> list[str]:
        """Returns the faults that an independent reader finds, including records that are still missing."""
        where = self.house.place
        found = check(where.dsn, where.kafka, self.name, table=f"public.{self.name}")
        return found + at_end(where.dsn, where.kafka, self.name)


def wait_for(what, why: str, seconds: float = 60.0, pause: float = 0.3):
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, f"it did not come: {why}"
        time.sleep(pause)
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
