"""The ways of a record side by side, in turns, as ratios: by columns or through Spark's decoder, per batch or per partition."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from itertools import product
from typing import TYPE_CHECKING
from unittest.mock import patch

from per_partition import GUARANTEES, on_servers, produce, seconds

if TYPE_CHECKING:
    from pathlib import Path

WAYS = {"long": lambda raw, _: raw, "short": None}


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
    with on_servers() as (dsn, bootstrap, pipelines):
        produce(bootstrap, given.records, given.partitions, given.bad)
        for number in range(given.rounds + 1):
            for guarantee, way in kinds if number % 2 else reversed(kinds):
                one = _seconds(dsn, bootstrap, pipelines, guarantee, way, number)
                took[guarantee, way] += [one] if number else []  # the first round warms Spark up
    first = took[kinds[0]]
    for (guarantee, way), each in took.items():
        rates = [round(given.records / one) for one in each]
        ratio = statistics.median(long / one for long, one in zip(first, each, strict=True))
        print(f"{guarantee:<14}{way:<7}{round(statistics.median(rates)):>9} rows/s  {ratio:5.2f}   {rates}")
    print(f"load {os.getloadavg()}")
    return 0


def _seconds(dsn: str, bootstrap: str, pipelines: Path, guarantee: str, way: str, number: int) -> float:
    instead = WAYS[way]
    if instead is None:
        return seconds(dsn, bootstrap, pipelines, guarantee, f"{way}_{number}")
    with patch("lockstep.adapters.spark.shortened", instead):
        return seconds(dsn, bootstrap, pipelines, guarantee, f"{way}_{number}")


if __name__ == "__main__":
    sys.exit(main())
