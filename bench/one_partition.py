"""Compares a topic of one partition with one of four, in turns, for `PerBatch` as it is and behind a view.

Usage: one_partition.py [--records 300000] [--rounds 5]. CPU time tells something also while the machine is busy.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from typing import TYPE_CHECKING

import per_partition
import written_once
from peers.servers import servers

if TYPE_CHECKING:
    from peers.contender import Place

PARTITIONS = (1, 4)
WAYS = ("per batch", "written once")
GOAL = 0.8


def main() -> int:
    """Prints the medians of both, and the medians of the same rounds' ratios. Returns 1 below the goal."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    options.add_argument("--records", type=int, default=300_000)
    options.add_argument("--rounds", type=int, default=5)
    given = options.parse_args()
    rates: dict[tuple[str, int], list[float]] = {}
    with servers() as place:
        pipelines = place.home / "pipelines"
        pipelines.mkdir()
        os.environ["LOCKSTEP_PIPELINES"] = str(pipelines)
        for partitions in PARTITIONS:
            per_partition.produce(place.bootstrap, given.records, partitions, topic=f"bench.{partitions}")
        for number in range(given.rounds + 1):
            for way in WAYS:
                for partitions in PARTITIONS if number % 2 else reversed(PARTITIONS):
                    rate = _rate(place, way, partitions, number, given.records)
                    rates.setdefault((way, partitions), []).extend([rate] if number else [])  # the first warms up
    worst = 1.0
    for way in WAYS:
        one, four = (rates[way, partitions] for partitions in PARTITIONS)
        ratios = [a / b for a, b in zip(one, four, strict=True)]
        worst = min(worst, statistics.median(ratios))
        told = "   ".join(f"{p} partitions {statistics.median(rates[way, p]):>9,.0f} rows/s" for p in PARTITIONS)
        print(f"{way:<14}{told}   ratio {statistics.median(ratios):.2f}   {[round(r, 2) for r in ratios]}")
    print(f"load {os.getloadavg()[0]:.1f}")
    return int(worst < GOAL)


def _rate(place: Place, way: str, partitions: int, number: int, records: int) -> float:
    folder = place.home / "pipelines"
    found = written_once.cost(
        place, folder, way, number, records, topic=f"bench.{partitions}", of=f"{partitions}_{number}"
    )
    return records / found.seconds


if __name__ == "__main__":
    sys.exit(main())
