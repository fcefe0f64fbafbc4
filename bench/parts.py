"""Compares a table by batch whose ranges become parts with one that takes staged rows, in turns.

It measures CPU time, WAL and seconds.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.planning.decisions import Caller
from lockstep.engine.spark.engine import SparkEngine
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from lockstep.targets.table import parts
from peers.meter import Meter
from peers.servers import servers
from per_partition import DEFINITION, TARGET, produce
from written_once import Cost, asked_for, asked_one, show_costs

if TYPE_CHECKING:
    from pathlib import Path

    from peers.contender import Place

BY_BATCH = TARGET.replace("_ordinal));", "_ordinal, _batch)) partition by list (_batch);")
LEAST = {"staged": sys.maxsize, "parts": parts.LEAST_OFFSETS}  # offsets of a batch whose ranges become parts


def cost(place: Place, folder: Path, way: str, number: int, records: int) -> Cost:
    """Returns the cost of the whole topic into an empty table, by a warm session. Every record is compared by its number."""
    name = f"{way}_{number}"
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(DEFINITION.format(name=name, guarantee="PerBatch"))
    (folder / name / "target.sql").write_text(BY_BATCH.format(name=name))
    loaded = load(name)
    parts.LEAST_OFFSETS = LEAST[way]
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
            found = asked_one(cur, f"select count(distinct n) filter (where id = 'record-' || n) from public.{name}")
            tables = asked_one(cur, f"select count(*) from pg_partition_tree('public.{name}') where isleaf")
            if found != records or (tables > 1) != (way == "parts"):
                raise SystemExit(f"{name}: {found} of {records} records have their row, in {tables} tables")
            cur.execute(f"drop table public.{name}")
    return Cost(took, report.seconds["commit"], meter.cpu * 1e6 / records, wal / records)


def main() -> int:
    """Prints each way's medians, and the medians of the same rounds' ratios."""
    given = asked_for(__doc__)
    costs: dict[str, list[Cost]] = {way: [] for way in LEAST}
    with servers() as place:
        pipelines = place.home / "pipelines"
        pipelines.mkdir()
        os.environ["LOCKSTEP_PIPELINES"] = str(pipelines)
        produce(place.bootstrap, given.records, given.partitions)
        for number in range(given.rounds + 1):
            for way in LEAST if number % 2 else reversed(LEAST):
                one = cost(place, pipelines, way, number, given.records)
                costs[way] += [one] if number else []  # the first round warms Spark up
    show_costs(costs, given.records)
    for part in Cost.__slots__:
        pairs = [getattr(a, part) / getattr(b, part) for a, b in zip(costs["parts"], costs["staged"], strict=True)]
        print(f"parts : staged   {part:<8} {statistics.median(pairs):.2f}   {[round(p, 2) for p in pairs]}")
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
