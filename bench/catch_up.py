"""Measures a long way to catch up: batch after batch over many million records.

The last batches should be as fast as the first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2

from lockstep.adapters.kafka.broker import Broker
from lockstep.core.planning.decisions import Caller
from lockstep.engine.spark.engine import SparkEngine
from lockstep.steps.batch.run import until_idle
from lockstep.steps.context import Context
from peers.contender import APPEND, Task
from peers.ours import defined, settled
from peers.records import BY_BATCH, drop_table, fill
from peers.servers import servers
from per_partition import GUARANTEES

if TYPE_CHECKING:
    from peers.contender import Place

TOPIC = "catch_up.v1"
STEADY = 0.8
PARTS = 5
COUNTED = """select sum(rows)::int8, sum(records)::int8 from (
    select count(*) as rows, count(distinct _offset) as records from public.{table} group by _stream) t"""


def main() -> int:
    """Prints each way's rate in its first fifth, its second, and so on.

    Returns 1 when the last rate is under four fifths of the first.
    """
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=20_000_000)
    options.add_argument("--batch", type=int, default=1_000_000, help="records of a batch")
    options.add_argument("--partitions", type=int, default=4)
    given = options.parse_args()
    if given.records < PARTS * given.batch:
        options.error(f"--records must be {PARTS} batches at least")
    steady = True
    with servers() as place:
        settled(place)
        begin = time.perf_counter()
        fill(place, TOPIC, given.records, given.partitions)
        print(
            f"{given.records:,} records produced in {time.perf_counter() - begin:.0f} s, load {os.getloadavg()[0]:.1f}"
        )
        for guarantee, by_batch in [(name, False) for name in GUARANTEES] + [("PerBatch", True)]:
            name = f"{guarantee.lower()}{'_by_batch' if by_batch else ''}"
            options_ = (("guarantee", guarantee), *((BY_BATCH,) if by_batch else ()))
            task = Task(TOPIC, name, given.records, given.partitions, APPEND, options_)
            rates = caught_up(place, task, given.batch)
            parts = [
                statistics.median(rates[i * len(rates) // PARTS : (i + 1) * len(rates) // PARTS]) for i in range(PARTS)
            ]
            ratio = parts[-1] / parts[0]
            steady &= ratio >= STEADY
            told = "  ".join(f"{round(part):>8,}" for part in parts)
            print(f"{name:<20}{len(rates):>4} batches  rows/s by fifths {told}   last : first {ratio:.2f}", flush=True)
    return 0 if steady else 1


def caught_up(place: Place, task: Task, batch: int) -> list[float]:
    """Returns each batch's rows per second, from its plan to its announcement.

    Ends the bench unless every offset has its row once.
    """
    loaded = defined(place, task, batch)
    rates = []
    with closing(Context(place.dsn, Broker(place.bootstrap))) as at:
        engine, begin = SparkEngine(loaded, place.bootstrap, place.dsn), time.perf_counter()
        for report in until_idle(at, engine, loaded, Caller("bench"), wait=60):
            if report.went_on:
                rows = sum(item.until_offset - item.from_offset for item in report.ranges)
                rates.append(rows / (time.perf_counter() - begin))
            begin = time.perf_counter()
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(COUNTED.format(table=task.table))
        if cur.fetchone() != (task.records, task.records):
            raise SystemExit(f"{task.table}: not every record is there once")
    drop_table(place, task)
    return rates


if __name__ == "__main__":
    sys.exit(main())
