"""Measures one run of a pipeline over a whole topic: seconds, CPU time and WAL. Prints what several of them cost."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import psycopg2

from lockstep.adapters.kafka.broker import Broker
from lockstep.core.planning.decisions import Caller
from lockstep.engine.spark.engine import SparkEngine
from lockstep.steps.batch.run import run
from lockstep.steps.context import Context
from peers.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lockstep.core.pipeline.folder import PipelineFolder
    from peers.contender import Place


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a run: seconds in all and of its commit, CPU microseconds and WAL bytes a record."""

    seconds: float
    commit: float
    cpu: float
    wal: float


def cost_of_run(
    place: Place, loaded: PipelineFolder, records: int, look: Callable[[Any, Context], None] = lambda _cur, _at: None
) -> Cost:
    """Returns the cost of the whole topic, by a warm process. `look` compares the rows afterwards, as a superuser."""
    at = logged_in(place.dsn, place.bootstrap)
    with closing(psycopg2.connect(place.superuser_dsn)) as conn:
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
            look(cur, at)
    return Cost(took, report.seconds["commit"], meter.cpu * 1e6 / records, wal / records)


@cache
def logged_in(dsn: str, bootstrap: str) -> Context:
    """Returns the process's connections, which it keeps from run to run, as `lockstep run --until-idle` does."""
    return Context(dsn, Broker(bootstrap))


def costs_in_turns(ways: Sequence[str], rounds: int, cost: Callable[[str, int], Cost]) -> dict[str, list[Cost]]:
    """Returns the costs of each way, round by round, each round in the other order. The first round warms Spark up."""
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way in ways if number % 2 else reversed(ways):
            one = cost(way, number)
            costs[way] += [one] if number else []
    return costs


def asked_one(cur: Any, query: str, *values: Any) -> Any:
    """Returns the one value that the query answers."""
    cur.execute(query, values or None)
    return cur.fetchone()[0]


def options_of_rounds(about: str | None, rounds: int = 5) -> argparse.ArgumentParser:
    """Returns a command line that asks how many records, partitions and rounds are wanted."""
    options = argparse.ArgumentParser(description=about.splitlines()[0] if about else None)
    options.add_argument("--records", type=int, default=1_000_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--rounds", type=int, default=rounds)
    return options


def show_costs(costs: Mapping[str, Sequence[Cost]], records: int) -> None:
    """Prints the medians of each way."""
    for way, each in costs.items():
        told = [statistics.median(getattr(one, part) for one in each) for part in Cost.__slots__]
        rate = round(records / told[0])
        print(f"{way:<14}{rate:>9,} rows/s   commit {told[1]:.3f} s   CPU {told[2]:.2f} us   WAL {told[3]:.0f} B")


def ratios_of_rounds(one: Sequence[Cost], other: Sequence[Cost]) -> Iterator[tuple[str, list[float]]]:
    """Yields each part of a cost with the ratios of the same rounds."""
    for part in Cost.__slots__:
        yield part, [getattr(a, part) / getattr(b, part) for a, b in zip(one, other, strict=True)]
