"""Compares PerBatch behind a view with PerBatch as it is and with PerPartition, in turns, by CPU time, WAL and seconds.

All have the same topic and a table of the same shape. It also measures what a view costs its readers.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg2

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.planning.decisions import Caller
from lockstep.engine.spark.engine import SparkEngine
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from peers.meter import Meter
from peers.servers import servers
from per_partition import DEFINITION, TOPIC, produce

if TYPE_CHECKING:
    from pathlib import Path

    from peers.contender import Place

# `_batch` stands first: Postgres reads a row from its first column on, and the view compares `_batch` of each row.
TARGET = """create table public.{name} (_batch int8 not null, _offset int8 not null, _stream int4 not null,
    _ordinal int4 not null, id text, n bigint, amount numeric(12,2), at timestamptz,
    primary key (_stream, _offset, _ordinal));"""
WAYS = {"per batch": ("PerBatch", ""), "per partition": ("PerPartition", ""), "written once": ("PerBatch", "_rows")}
ONCE = "written once"
LOOKS = 200  # rows that are looked up by their key
READERS = {  # what a reader asks: of all rows, and of a row by its key
    "scan": "select count(*), sum(n) from {table}",
    "look": "select * from {table} where _stream = %s and _offset = %s",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a run: seconds in all and of its commit, CPU microseconds and WAL bytes a record."""

    seconds: float
    commit: float
    cpu: float
    wal: float


def cost(place: Place, folder: Path, way: str, number: int, records: int, *, topic: str = TOPIC, of: str = "") -> Cost:
    """Returns the cost of the whole topic into an empty table, by a warm session. Keeps the table of round 1."""
    guarantee, behind = WAYS[way]
    name = f"{way.replace(' ', '_')}_{of or number}"
    (folder / name).mkdir()
    text = DEFINITION.format(name=name, guarantee=guarantee).replace(TOPIC, topic)
    (folder / name / "__init__.py").write_text(text)
    (folder / name / "target.sql").write_text(TARGET.format(name=name + behind))
    loaded = load(name)
    with closing(connect(place.dsn)) as conn:
        migrate_target(conn, loaded)
    with (
        closing(Context(place.dsn, Broker(place.bootstrap))) as at,
        closing(psycopg2.connect(place.superuser_dsn)) as conn,
    ):
        conn.autocommit = True
        engine = SparkEngine(loaded, place.bootstrap, place.dsn)
        with conn.cursor() as cur:
            cur.execute("checkpoint")
            begun = asked_one(cur, "select pg_current_wal_insert_lsn()")
            with Meter((os.getpid(),), place.postmaster) as meter:
                begin = time.perf_counter()
                report = run(at, engine, loaded, Caller("bench"))
                took = time.perf_counter() - begin
            wal = float(asked_one(cur, "select pg_current_wal_insert_lsn() - %s::pg_lsn", begun))
            found = asked_one(cur, f"select count(distinct (_stream, _offset)) from public.{name}")
            if found != records:
                raise SystemExit(f"{name}: {found} records have a row, and {records} were produced")
            if number != 1:
                kind = "view" if behind else "table"
                cur.execute(f"drop {kind} public.{name}" + (f"; drop table public.{name}{behind}" if behind else ""))
    return Cost(took, report.seconds["commit"], meter.cpu * 1e6 / records, wal / records)


def readers(place: Place, records: int) -> dict[str, list[float]]:
    """Returns, for each kind of question, the view's times to the table's: without and with a batch hidden."""
    found: dict[str, list[float]] = {}
    name = f"{ONCE.replace(' ', '_')}_1"
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn.cursor() as cur:
        conn.autocommit = True
        cur.execute(f"vacuum analyze public.{name}_rows")
        for is_hidden in (False, True):
            if is_hidden:
                cur.execute("set session_replication_role = replica")  # a batch that nobody plans
                cur.execute("insert into lockstep.hidden_batch values (9999, %s)", (f"public.{name}_rows",))
            for kind, query in READERS.items():
                pairs = [
                    _seconds(cur, kind, query.format(table=f"public.{name}"), records)
                    / _seconds(cur, kind, query.format(table=f"public.{name}_rows"), records)
                    for _ in range(7)
                ]
                found[f"{kind}, {'one batch' if is_hidden else 'nothing'} hidden"] = pairs
    return found


def _seconds(cur: Any, kind: str, query: str, records: int) -> float:
    begin = time.perf_counter()
    for number in range(1 if kind == "scan" else LOOKS):
        cur.execute(query, None if kind == "scan" else (1, number * records // LOOKS // 4))
        cur.fetchall()
    return time.perf_counter() - begin


def asked_one(cur: Any, query: str, *values: Any) -> Any:
    """Returns the one value that the query answers."""
    cur.execute(query, values or None)
    return cur.fetchone()[0]


def asked_for(about: str | None) -> argparse.Namespace:
    """Returns how many records, partitions and rounds the command line asks for."""
    options = argparse.ArgumentParser(description=about.splitlines()[0] if about else None)
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--rounds", type=int, default=5)
    return options.parse_args()


def show_costs(costs: dict[str, list[Cost]], records: int) -> None:
    """Prints the medians of each way."""
    for way, each in costs.items():
        told = [statistics.median(getattr(one, part) for one in each) for part in Cost.__slots__]
        rate = round(records / told[0])
        print(f"{way:<14}{rate:>9,} rows/s   commit {told[1]:.3f} s   CPU {told[2]:.2f} us   WAL {told[3]:.0f} B")


def main() -> int:
    """Prints each way's medians, and the medians of the same rounds' ratios."""
    given = asked_for(__doc__)
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    with servers() as place:
        pipelines = place.home / "pipelines"
        pipelines.mkdir()
        os.environ["LOCKSTEP_PIPELINES"] = str(pipelines)
        produce(place.bootstrap, given.records, given.partitions)
        for number in range(given.rounds + 1):
            for way in WAYS if number % 2 else reversed(WAYS):
                one = cost(place, pipelines, way, number, given.records)
                costs[way] += [one] if number else []  # the first round warms Spark up
        asked = readers(place, given.records)
    show_costs(costs, given.records)
    for other in WAYS:
        if other != ONCE:
            for part in Cost.__slots__:
                pairs = [getattr(a, part) / getattr(b, part) for a, b in zip(costs[ONCE], costs[other], strict=True)]
                print(f"{ONCE} : {other:<14}{part:<8} {statistics.median(pairs):.2f}   {[round(p, 2) for p in pairs]}")
    for what, pairs in asked.items():
        print(f"view : table   {what:<26}{statistics.median(pairs):.2f}   {[round(p, 2) for p in pairs]}")
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
