"""Compares targets with and without a feed, totals by key with totals by window, and measures a relay and an idle `emit`.

All read the same topic in turns, by a warm session. Exits 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg2
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.kafka.sink_topic import ensure_sink
from lockstep.core.planning.decisions import Caller
from lockstep.engine.spark.engine import SparkEngine
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from lockstep.steps.feed.relay import relay
from lockstep.steps.windows.emit import emit
from per_partition import on_servers

if TYPE_CHECKING:
    from pathlib import Path

TOPIC, PARTITIONS, KEYS = "follows.v1", 4, 1_000
BEGIN, HOURS = datetime(2026, 5, 1, tzinfo=UTC), 24
IDLE_CALLS = 50
DEFINITION = """from lockstep import *
P = Pipeline("{name}", "follows.v1", Json("id string, k string, hour string, n bigint, at timestamp"), {target},
    limits=Limits(records=100_000_000), start="earliest"{more})
"""
ORIGIN = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
ROW = f"id text {{key}}, k text, hour text, n bigint, at timestamptz, {ORIGIN}"
APPENDED = f"create table public.{{name}} ({ROW.format(key='')}, primary key (_stream, _offset, _ordinal))"
KEYED = f"create table public.{{name}} ({ROW.format(key='primary key')})"
TOTALS = 'totals=(Count("records"), Sum("total", of="n"))'
ADDED_UP = f"""create table public.{{name}} (hour text, k text, records bigint, total numeric, {ORIGIN},
    primary key (hour, k))"""
BY_HOUR = f"""create table public.{{name}} (window_start timestamptz, window_end timestamptz not null, k text, records bigint,
    total numeric, _revision int not null, {ORIGIN}, primary key (window_start, k))"""


@dataclass(frozen=True)
class Kind:
    """A target as its definition has it, its table, and what else the pipeline says."""

    target: str
    table: str
    more: str = ""


KINDS = {
    "append": Kind('Append("public.{name}")', APPENDED),
    "append, feed": Kind('Append("public.{name}", feed=Feed())', APPENDED),
    "upsert": Kind('Upsert("public.{name}", key=("id",))', KEYED),
    "upsert, feed": Kind(
        'Upsert("public.{name}", key=("id",), feed=Feed(to=Topic("{name}.out", partitions=4)))', KEYED
    ),
    "accumulate": Kind(f'Accumulate("public.{{name}}", key=("hour", "k"), {TOTALS})', ADDED_UP),
    "windows": Kind(
        f'Windows("public.{{name}}", window=Tumbling("1 hour"), key=("k",), {TOTALS})',
        BY_HOUR,
        ', event_time=EventTime("at", delay="2 minutes")',
    ),
}
# What each is held against, in which seconds, and how many times of them it may take. Totals are shown by their commit, windows
# when they are over: their commits are compared, and what it takes to show the windows as well stands beside it.
BOUNDS = {
    ("append, feed", "append", "run"): 2.0,
    ("upsert, feed", "upsert", "run"): 1.5,
    ("windows", "accumulate", "commit"): 1.0,
}
ALSO = ("windows", "accumulate", "run")
LEAST_RELAYED, MOST_IDLE_MS = 50_000, 30.0


def produce(bootstrap: str, records: int) -> None:
    """Produces so many records over a day, in the order of their times, each of its own id and one of a thousand keys."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # its future ends with it
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 10_000_000})
    step = timedelta(hours=HOURS) / records
    for i in range(records):
        at = BEGIN + i * step
        value = {"id": f"r{i}", "k": f"k{i % KEYS}", "hour": f"{at:%H}", "n": i, "at": at.isoformat()}
        producer.produce(TOPIC, json.dumps(value), partition=i % PARTITIONS)
        if i % 10_000 == 0:
            producer.poll(0)
    producer.flush(60)


class Bench:
    """The servers, with the topic filled."""

    def __init__(self, dsn: str, bootstrap: str, pipelines: Path, records: int) -> None:
        self.dsn, self.bootstrap, self.pipelines, self.records = dsn, bootstrap, pipelines, records
        self.relayed: list[float] = []
        self.idle: list[float] = []

    def seconds(self, kind: str, number: int) -> dict[str, float]:
        """Returns the seconds from plan to announce, and those of the commit, over the whole topic into an empty table."""
        name = f"{kind.replace(', ', '_')}_{number}"
        folder = self.pipelines / name
        folder.mkdir()
        said = KINDS[kind]
        text = DEFINITION.format(name=name, target=said.target.format(name=name), more=said.more)
        (folder / "__init__.py").write_text(text)
        (folder / "target.sql").write_text(said.table.format(name=name))
        loaded = load(name)
        at = Context(self.dsn, Broker(self.bootstrap))
        migrate_target(at.conn, loaded)
        begin = time.perf_counter()
        report = run(at, SparkEngine(loaded, self.bootstrap, self.dsn), loaded, Caller("bench"))
        took = {"run": time.perf_counter() - begin, "commit": report.seconds["commit"]}
        self._check(kind, name)
        target = loaded.pipeline.first
        if target.feed is not None and target.feed.to is not None:
            ensure_sink(at.broker, target.feed.to.name, target.feed.to.partitions or 1)
            begin = time.perf_counter()
            relayed = relay(at, loaded.pipeline, target, "bench")
            self.relayed.append(relayed.sent / (time.perf_counter() - begin))
            if relayed.sent != self.records:
                raise SystemExit(f"{name}: the relay sent {relayed.sent} of {self.records} changes: {relayed.stopped}")
        if kind == "windows":
            emit(at.conn, at.broker, loaded.pipeline)
            begin = time.perf_counter()
            for _ in range(IDLE_CALLS):
                emit(at.conn, at.broker, loaded.pipeline)
            self.idle.append((time.perf_counter() - begin) * 1000 / IDLE_CALLS)
        at.close()
        return took

    def _check(self, kind: str, name: str) -> None:
        """Compares what the rows sum up to with what was produced. Open windows have no row yet, but they count."""
        if kind == "windows":
            counted = (
                "select sum(records), sum((totals ->> 'total')::numeric) from lockstep.contribution where target = %s"
            )
        elif kind == "accumulate":
            counted = f"select sum(records), sum(total) from public.{name} where %s <> ''"
        else:
            counted = f"select count(*), sum(n) from public.{name} where %s <> ''"
        with closing(psycopg2.connect(self.dsn)) as conn, conn.cursor() as cur:
            cur.execute("set role lockstep_owner")
            cur.execute(counted, (f"public.{name}",))
            found = cur.fetchone()
        if found != (self.records, sum(range(self.records))):
            raise SystemExit(f"{name}: its rows add up to {found}")


def main() -> int:
    """Prints rows per second of each kind, and the median of the rounds' ratios beside its bound."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=200_000)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    took: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    with on_servers() as (dsn, bootstrap, pipelines):
        produce(bootstrap, given.records)
        bench = Bench(dsn, bootstrap, pipelines, given.records)
        for number in range(given.rounds + 1):
            for kind in KINDS if number % 2 else reversed(KINDS):
                one = bench.seconds(kind, number)
                took[kind] += [one] if number else []  # the first round warms Spark up
    for kind, each in took.items():
        rates = [round(given.records / one["run"]) for one in each]
        print(f"{kind:<14}{round(statistics.median(rates)):>9} rows/s   {rates}")
    missed = False
    for (kind, other, of), bound in [*BOUNDS.items(), (ALSO, None)]:
        ratios = [one[of] / beside[of] for one, beside in zip(took[kind], took[other], strict=True)]
        ratio = statistics.median(ratios)
        missed |= bound is not None and ratio > bound
        asked = "no bound" if bound is None else f"at most {bound}"
        print(f"{kind} : {other}  {ratio:.2f} x the seconds of its {of}, {asked}   {[round(r, 2) for r in ratios]}")
    relayed, idle = statistics.median(bench.relayed), statistics.median(bench.idle)
    print(f"relay  {round(relayed)} changes/s, at least {LEAST_RELAYED}   {[round(r) for r in bench.relayed]}")
    print(f"emit with nothing to do  {idle:.1f} ms, at most {MOST_IDLE_MS:g}   load {os.getloadavg()}")
    return int(missed or relayed < LEAST_RELAYED or idle > MOST_IDLE_MS)


if __name__ == "__main__":
    sys.exit(main())
