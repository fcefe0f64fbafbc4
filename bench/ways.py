"""Compares the ways of a record in turns, as ratios.

They are by columns or through Spark's decoder, per batch or per partition. Beside the rates, it shows the CPU time per
record of each program, which is meaningful on a busy machine, too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from contextlib import ExitStack, suppress
from itertools import product
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import psutil

from lockstep.core.planning.routes import Route, Way
from per_partition import GUARANTEES, on_servers, produce, seconds

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = ("JVM", "Python", "Postgres")
# What is put in place of a function below lockstep.engine.spark, so that a record takes a longer way.
WAYS: dict[str, dict[str, Any]] = {
    "long": {"engine.route": lambda *_, **__: Route(Way.SPARK, "it is measured")},
    "short": {"short.written": lambda parts, *_: ((), parts)},
    "straight": {},
}


def main() -> int:
    """Prints rows per second of each way, and the median of each round's ratios to the long way per batch."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=400_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--bad", type=int, default=0, help="so many of a million records are no JSON")
    given = options.parse_args()
    kinds = list(product(GUARANTEES, WAYS))
    took: dict[tuple[str, str], list[float]] = {kind: [] for kind in kinds}
    spent: dict[tuple[str, str], list[dict[str, float]]] = {kind: [] for kind in kinds}
    with on_servers() as (dsn, bootstrap, pipelines):
        produce(bootstrap, given.records, given.partitions, given.bad)
        for number in range(given.rounds + 1):
            for guarantee, way in kinds if number % 2 else reversed(kinds):
                before = cpu_seconds(str(pipelines.parent))
                one = _seconds(dsn, bootstrap, pipelines, guarantee, way, number)
                after = cpu_seconds(str(pipelines.parent))
                if number:  # the first round warms Spark up
                    took[guarantee, way].append(one)
                    spent[guarantee, way].append({name: after[name] - before[name] for name in PROGRAMS})
    first = took[kinds[0]]
    print(f"{'':<21}{'rows/s':>9}{'ratio':>7}   CPU, microseconds a record: {', '.join(PROGRAMS)}")
    for (guarantee, way), each in took.items():
        rates = [round(given.records / one) for one in each]
        ratio = statistics.median(long / one for long, one in zip(first, each, strict=True))
        cpu = [statistics.median(one[name] for one in spent[guarantee, way]) for name in PROGRAMS]
        told = "".join(f"{1e6 * one / given.records:>8.2f}" for one in cpu)
        print(f"{guarantee:<14}{way:<7}{round(statistics.median(rates)):>9}{ratio:>7.2f}   {told}   {rates}")
    print(f"load {os.getloadavg()}")
    return 0


def cpu_seconds(home: str) -> dict[str, float]:
    """Returns the CPU time of each of the programs so far.

    A Python worker that stood idle for a minute is gone, with its time.
    """
    used = dict.fromkeys(PROGRAMS, 0.0)
    here = psutil.Process()
    ours = [here, *here.children(recursive=True)]
    for each in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            words = " ".join(each.cmdline())
            if "-D" in words.split() and home in words and each not in ours:  # Postgres has left home
                ours += [each, *each.children()]
    for each in ours:
        with suppress(psutil.NoSuchProcess):
            if "kafka.Kafka" in each.cmdline():
                continue
            kind = {"java": "JVM", "postgres": "Postgres"}.get(each.name(), "Python")
            used[kind] += sum(each.cpu_times()[:4])
    return used


def _seconds(dsn: str, bootstrap: str, pipelines: Path, guarantee: str, way: str, number: int) -> float:
    with ExitStack() as changed:
        for name, other in WAYS[way].items():
            changed.enter_context(patch(f"lockstep.engine.spark.{name}", other))
        return seconds(dsn, bootstrap, pipelines, guarantee, f"{way}_{number}")


if __name__ == "__main__":
    sys.exit(main())
