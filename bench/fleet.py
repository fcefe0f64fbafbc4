"""Measures a fleet: the DAG file of all pipelines, `lockstep plan --all`, and a run of the fleet's DAG.

Usage: python bench/fleet.py [PIPELINES [PARTITIONS [HOME]]]. It starts a broker, a ledger and an Airflow of its own. Each
pipeline has committed one record of each partition. With HOME, broker and ledger stay there, and another call goes on
where this one was ended. Exits 1 if a bound for 1,000 pipelines is not held.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
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
from lockstep.core.planning.routes import Route, Way
from lockstep.dev.servers import airflow
from lockstep.dev.servers.airflow_settings import AirflowPlace
from lockstep.dev.setup import jars
from lockstep.engine.chosen import engine_of
from lockstep.ledger.changes.owners import register
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from stack import Stack

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.dev.servers.airflow import Airflow

MOST_PARSE_MILLISECONDS, MOST_LOOK_SECONDS, MOST_WORK_SECONDS, OF = 30.0, 2.0, 60.0, 1_000
PARSE_ROUNDS, ROUNDS, WORK_ROUNDS, AT_ONCE = 3, 5, 3, 50
ACTIVE, MOST_TASKS, PATIENCE = 50, 4, 300
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
DAG_FILES = {
    "dags/all.py": "from lockstep.airflow import dags_of_all\n\nglobals().update(dags_of_all(__file__))\n",
    "fleet/fleet.py": "from lockstep.airflow import fleet_dag\n\n"
    "dag = fleet_dag(__file__, schedule=None, is_paused_upon_creation=False)\n",
}
PARSE = """import json, runpy, sys, time
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
clocks = (time.perf_counter, time.process_time)
marks = [[clock() for clock in clocks]]
dags = [each for each in runpy.run_path(sys.argv[1]).values() if isinstance(each, DAG)]
marks.append([clock() for clock in clocks])
for dag in dags:
    DagSerialization.to_dict(dag)
marks.append([clock() for clock in clocks])
print(json.dumps([len(dags), *([after - before for before, after in zip(*each)] for each in zip(marks, marks[1:]))]))
"""

HERE = Route(Way.PROCESS, "it is measured")


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
                while run(at, engine_of(folder, at.broker, dsn, lambda: None, HERE), folder, Caller("bench")).went_on:
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


def look(stack: Stack, idle: int) -> tuple[float, float]:
    """Calls `lockstep plan --all` as a person would. Returns its seconds, and those of a processor."""
    before, begun = _spent(), time.perf_counter()
    documents = json.loads(stack.call("plan", "--all", "--json"))["pipelines"]
    took = time.perf_counter() - begun
    if [each.get("decision") for each in documents] != ["idle"] * idle:
        raise SystemExit(f"not every pipeline is idle: {next(e for e in documents if e.get('decision') != 'idle')}")
    return took, _spent() - before


def _spent() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def parse(home: Path, count: int) -> list[list[float]]:
    """Runs the DAG file and serializes its DAGs, as Airflow's DAG processor does, in a process that knows Airflow.

    Returns the seconds of both parts, and those of a processor.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
    environ |= {"AIRFLOW_HOME": str(home / "parsing"), "PYTHONPATH": str(Path("include").resolve())}
    said = subprocess.run(
        [sys.executable, "-c", PARSE, str(home / "dags" / "all.py")],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    dags, *parts = json.loads(said.stdout.splitlines()[-1])
    if dags != 2 * count:
        raise SystemExit(f"{dags} DAGs of {count} pipelines: {said.stderr}")
    return [[each / count for each in part] for part in parts]


def work(house: Airflow, stack: Stack, topics: dict[str, str], partitions: int, word: str) -> float:
    """Sends an order to each partition of some topics, and triggers the fleet. Returns seconds until the last commit."""
    step = max(1, len(topics) // ACTIVE)
    active = list(topics)[::step][:ACTIVE]
    send(stack.kafka, [topics[name] for name in active], partitions, word)
    api = house.api(60)
    with closing(connect(stack.environ["LOCKSTEP_DSN"])) as conn:
        ((begun, last),) = ask(conn, "select clock_timestamp(), coalesce(max(batch_id), 0) from lockstep.batch")
        run_id = api.trigger("fleet")
        committed = f"select pipeline, closed_at from lockstep.batch where batch_id > {last} and state = 'committed'"
        deadline = time.monotonic() + PATIENCE
        while len(found := dict(ask(conn, committed))) < len(active):
            if time.monotonic() > deadline:
                raise SystemExit(f"{len(found)} of {len(active)} pipelines have committed: {run_id}, {house.folder}")
            time.sleep(0.1)
        if sorted(found) != sorted(active):
            raise SystemExit(f"others have committed, too: {set(found) - set(active)}")
        for name in active:
            counted = f"select count(*) as rows, count(distinct _stream) as streams from public.{name}"
            ((rows, distinct),) = ask(conn, f"{counted} where order_id like '{word}-%'")
            if (rows, distinct) != (partitions, partitions):
                raise SystemExit(f"{name}: {rows} rows of {distinct} partitions, {partitions} were sent")
    while {run["dag_run_id"]: run["state"] for run in api.runs("fleet")}[run_id] not in {"success", "failed"}:
        time.sleep(0.2)
    return float((max(found.values()) - begun).total_seconds())


def scheduled(stack: Stack, topics: dict[str, str], partitions: int) -> list[float]:
    """Starts an Airflow with the fleet's DAG alone. Returns the seconds of each round, in which 50 pipelines have work."""
    home = stack.home
    (home / "plugins").mkdir(exist_ok=True)
    places = (home / "fleet", home / "plugins", home / "include" / "pipelines", jars.folder())
    settings = {"AIRFLOW__CORE__PARALLELISM": str(MOST_TASKS)}
    house = airflow.start(home, AirflowPlace(stack.environ["LOCKSTEP_DSN"], stack.kafka, *places, more=settings))
    try:
        deadline = time.monotonic() + PATIENCE
        while "fleet" not in house.api(60).dags():
            if time.monotonic() > deadline:
                raise SystemExit(f"the fleet's DAG is not there: {house.api(60).import_errors()}")
            time.sleep(0.5)
        stamp = int(time.time())
        return [work(house, stack, topics, partitions, f"round-{stamp}-{n}") for n in range(WORK_ROUNDS)]
    finally:
        airflow.stop(house)


def verdict(what: str, value: float, bound: float, unit: str, more: str) -> bool:
    """Prints a figure with its bound. Returns True if the figure is within it."""
    holds = value <= bound
    print(f"{what:<34}{value:8.2f} {unit:<3} bound {bound:6.2f}  {'holds' if holds else 'MISSED'}  {more}", flush=True)
    return holds


def main() -> int:
    """Measures, prints a line for each figure, and returns the exit code."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("pipelines", type=int, nargs="?", default=OF)
    options.add_argument("partitions", type=int, nargs="?", default=4, help="of each topic")
    options.add_argument("home", type=Path, nargs="?", help="where broker and ledger stay, for another call")
    given = options.parse_args()
    count, partitions = given.pipelines, given.partitions
    with tempfile.TemporaryDirectory() as folder:
        home = (given.home or Path(folder)).resolve()
        home.mkdir(parents=True, exist_ok=True)
        topics = define(home, count)
        parsed = [parse(home, count) for _ in range(PARSE_ROUNDS)]
        (run_s, run_cpu), (kept_s, kept_cpu) = (
            [statistics.median(each[part][clock] * 1000 for each in parsed) for clock in (0, 1)] for part in (0, 1)
        )
        more = f"(processor {run_cpu + kept_cpu:.1f}: the file {run_cpu:.1f}, its serialization {kept_cpu:.1f})"
        held = [verdict("both DAGs, a pipeline", run_s + kept_s, MOST_PARSE_MILLISECONDS, "ms", more)]
        stack = Stack(home)
        stack.environ["LOCKSTEP_PIPELINES"] = os.environ["LOCKSTEP_PIPELINES"] = f"{home}/include/pipelines"
        try:
            begin(stack, topics, partitions)
            looked = [look(stack, count) for _ in range(ROUNDS)]
            seconds, cpu = (statistics.median(each[clock] for each in looked) for clock in (0, 1))
            more = f"(processor {cpu:.2f}, {count:,} idle)"
            held.append(verdict("lockstep plan --all", seconds, MOST_LOOK_SECONDS * max(1, count / OF), "s", more))
            worked = scheduled(stack, topics, partitions)
            more = f"(rounds {', '.join(f'{each:.1f}' for each in worked)}, load {os.getloadavg()[0]:.1f})"
            held.append(
                verdict(f"{min(ACTIVE, count)} of {count:,} committed", max(worked), MOST_WORK_SECONDS, "s", more)
            )
        finally:
            if given.home is None:
                stack.end()
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
