"""Measures a fleet: `lockstep plan --all` over idle pipelines, and the DAG file that makes the DAGs of all.

Usage: python bench/fleet.py [PIPELINES [PARTITIONS]]. It starts a broker and a ledger of its own, in which each pipeline has
committed one record of each partition. Exits 1 above 2 s for the look, and above 30 ms a pipeline for the DAG file, at 1,000.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import OWNER, connect, transaction
from lockstep.core.planning.decisions import Caller
from lockstep.engine.driver_first import engine_of
from lockstep.ledger.changes.owners import register
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from stack import Stack

if TYPE_CHECKING:
    from psycopg2.extensions import connection

MOST_LOOK_SECONDS, MOST_PARSE_SECONDS, OF = 2.0, 0.030, 1_000
ROUNDS, AT_ONCE = 5, 50
DEFINITION = '''"""Keeps the orders of shop {n} current."""

from lockstep import Json, Limits, Pipeline, Upsert

ORDERS = Pipeline(
    name="{name}",
    topic="{topic}",
    format=Json(
        "order_id string, customer string, amount decimal(12,2), status string, placed_at timestamp", key="order_id"
    ),
    target=Upsert("public.{name}", key=("order_id",)),
    start="earliest",
    limits=Limits(records=500_000, per_partition=200_000, seconds=120),
    schedule="*/5 * * * *",
    owner="payments",
)
'''
TABLE = """create table if not exists public.{name} (
    order_id text primary key, customer text, amount numeric(12,2), status text, placed_at timestamptz,
    _stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null);
grant select, insert, update, delete on public.{name} to lockstep_committer;
"""
ALL = """from lockstep.airflow import dags_of_all

globals().update(dags_of_all(__file__))
"""
DAG_FILES = {"dags/all.py": ALL}
PARSE = """import time, runpy, sys
from airflow.sdk import DAG
begun = time.perf_counter()
found = runpy.run_path(sys.argv[1])
print(sum(isinstance(each, DAG) for each in found.values()), time.perf_counter() - begun)
"""


def define(home: Path, count: int) -> dict[str, str]:
    """Writes the pipelines, and one DAG file for all. Returns the topic of each."""
    topics = {f"shop_{n:04}": f"shop.{n:04}.orders" for n in range(count)}
    for n, (name, topic) in enumerate(topics.items()):
        folder = home / "include" / "pipelines" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text(DEFINITION.format(n=n, name=name, topic=topic))
    for file, text in DAG_FILES.items():
        (home / file).parent.mkdir(exist_ok=True)
        (home / file).write_text(text)
    return topics


def send(kafka: str, topics: list[str], partitions: int, word: str) -> None:
    """Sends an order to each partition of each topic."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 20})
    for topic in topics:
        for partition in range(partitions):
            order = {"order_id": f"{word}-{partition}", "amount": "1.50", "placed_at": "2026-05-01T10:00:00Z"}
            producer.produce(topic, json.dumps(order), order["order_id"], partition=partition)
            producer.poll(0)
    if producer.flush(60):
        raise SystemExit("not every order was sent")


def begin(stack: Stack, topics: dict[str, str], partitions: int) -> None:
    """Makes topics and tables, and commits one batch of each pipeline. Goes on where an earlier call was ended."""
    dsn = stack.environ["LOCKSTEP_DSN"]
    at = Context(dsn, Broker(stack.kafka))
    with closing(connect(dsn)) as conn:
        done = {name for (name,) in ask(conn, "select distinct pipeline from lockstep.batch where state = 'committed'")}
        names = [name for name in topics if name not in done]
        for first in range(0, len(names), AT_ONCE):
            some = names[first : first + AT_ONCE]
            _open(stack, conn, {name: topics[name] for name in some}, partitions)
            for name in some:
                folder = load(name)
                while run(at, engine_of(folder, at.broker, dsn, lambda: None), folder, Caller("bench")).went_on:
                    pass  # a batch that an earlier call left, then its own
            print(f"{len(done) + first + len(some):,} pipelines have committed", flush=True)
    at.close()


def _open(stack: Stack, conn: connection, topics: dict[str, str], partitions: int) -> None:
    """Makes the topics and tables of some pipelines, unless they are there, and sends the first orders."""
    admin = AdminClient({"bootstrap.servers": stack.kafka})
    there = admin.list_topics(timeout=30).topics
    new = [NewTopic(topic, partitions, 1) for topic in topics.values() if topic not in there]
    for made in (admin.create_topics(new) if new else {}).values():
        made.result(120)
    for name in topics:
        with transaction(conn, OWNER) as cur:
            register(cur, load(name).pipeline)
        with conn, conn.cursor() as cur:
            cur.execute(TABLE.format(name=name))
    send(stack.kafka, list(topics.values()), partitions, "first")


def ask(conn: connection, query: str) -> list[tuple]:
    """Returns the rows of a query."""
    with conn, conn.cursor() as cur:
        cur.execute(query)
        return cur.fetchall()


def look(stack: Stack, idle: int) -> float:
    """Calls `lockstep plan --all` as a person would. Returns its seconds."""
    begun = time.perf_counter()
    documents = json.loads(stack.call("plan", "--all", "--json"))["pipelines"]
    took = time.perf_counter() - begun
    if [each.get("decision") for each in documents] != ["idle"] * idle:
        raise SystemExit(f"not every pipeline is idle: {next(e for e in documents if e.get('decision') != 'idle')}")
    return took


def parse(home: Path, count: int) -> float:
    """Runs the DAG file as Airflow's DAG processor does, in a process that knows Airflow. Returns its seconds."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
    environ |= {"AIRFLOW_HOME": str(home / "airflow"), "PYTHONPATH": str(Path("include").resolve())}
    said = subprocess.run(
        [sys.executable, "-c", PARSE, str(home / "dags" / "all.py")],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    dags, seconds = said.stdout.split()[-2:]
    if int(dags) != 2 * count:
        raise SystemExit(f"{dags} DAGs of {count} pipelines: {said.stderr}")
    return float(seconds)


def main() -> int:
    """Measures, prints a line for each figure, and returns the exit code."""
    count, partitions = (int(word) for word in (sys.argv[1:] + ["1000", "4"][len(sys.argv) - 1 :])[:2])
    with tempfile.TemporaryDirectory() as home:
        topics = define(Path(home), count)
        parsed = [parse(Path(home), count) / count for _ in range(3)]
        print(f"one DAG file, both DAGs        {statistics.median(parsed) * 1000:7.1f} ms a pipeline", flush=True)
        stack = Stack(Path(home))
        stack.environ["LOCKSTEP_PIPELINES"] = os.environ["LOCKSTEP_PIPELINES"] = f"{home}/include/pipelines"
        try:
            begin(stack, topics, partitions)
            looked = [look(stack, count) for _ in range(ROUNDS)]
        finally:
            stack.end()
        print(f"lockstep plan --all            {statistics.median(looked):7.2f} s   (all of {count:,} idle)")
    is_slow = statistics.median(looked) > MOST_LOOK_SECONDS * max(1, count / OF)
    return int(is_slow or statistics.median(parsed) > MOST_PARSE_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
