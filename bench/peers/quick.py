"""Measures a few ratios at a size that CI can afford, and prints them with those of the last whole bench."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from peers.field import (
    ALL_CORES,
    AVAILABLE_NOW,
    AVAILABLE_NOW_UPSERT,
    BINARY_4,
    OUR_UPSERT,
    PER_BATCH,
    PER_PARTITION,
    PYTHON_COPY,
)
from peers.sides import FOUR, Comparison, Side
from peers.telling import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from peers.contender import Contender
    from peers.rounds import Ring

RECORDS, MANY, SMALL = 100_000, 512, 1_000
WARM_UPS = 4
FULL, RUN, WIDE = "quick", "quick, a small run", "quick, many partitions"
PEERS = (AVAILABLE_NOW.name, AVAILABLE_NOW_UPSERT.name)
SHARE = 0.5  # a ratio may fall to this share of what was recorded: machines differ, and a busy one scatters
AGAIN = 2  # a ratio that fell is measured so many times more


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure as a multiple of its comparison. Higher is better.

    `again` are later measurements of it. `found` is then the median of all.
    """

    name: str
    first: float
    recorded: float | None
    again: tuple[float, ...] = ()

    @property
    def found(self) -> float:
        """Returns the figure that counts."""
        return statistics.median((self.first, *self.again))

    @property
    def fell(self) -> bool:
        """Returns True if it is under the share of the recorded ratio."""
        return self.recorded is not None and self.found < SHARE * self.recorded


def comparisons(records: int = RECORDS) -> tuple[Comparison, ...]:
    """Returns what is compared. `records` is the size of the part with most of them."""
    append, upsert = map(tuned, (AVAILABLE_NOW, AVAILABLE_NOW_UPSERT))

    def full(name: str, ours: Contender, theirs: Contender) -> Comparison:
        return Comparison(name, Side(FULL, ours, records), Side(FULL, theirs, records))

    small = Side(RUN, PER_BATCH, SMALL)
    return (
        full("PerBatch append : AvailableNow append", PER_BATCH, append),
        full("PerBatch append : binary COPY by 4 connections", PER_BATCH, BINARY_4),
        full("PerPartition append : AvailableNow append", PER_PARTITION, append),
        full("PerPartition append : Python and COPY, all cores", PER_PARTITION, PYTHON_COPY[ALL_CORES]),
        full("PerBatch upsert : AvailableNow upsert", OUR_UPSERT, upsert),
        Comparison("a run of 1,000 records : AvailableNow's", small, Side(RUN, append, SMALL)),
        Comparison("1,000 records in 512 partitions : in 4", Side(WIDE, PER_BATCH, SMALL, MANY), small),
    )


def measure(turns: Ring, records: int = RECORDS, rounds: int = 3) -> dict[str, float]:
    """Returns the ratios, by name."""
    every = comparisons(records)
    sides = list(dict.fromkeys(side for each in every for side in (each.ours, each.theirs)))
    warmed = [side.contender for side in sides if side.part == FULL and side.contender != BINARY_4]
    turns.warm(warmed, records, FOUR, WARM_UPS, at=records)
    _run(turns, sides, rounds)
    ratios = {each.name: each.ratio(turns.found.runs) for each in every}
    return {name: ratio for name, ratio in ratios.items() if ratio is not None}


def measure_again(turns: Ring, name: str, records: int = RECORDS, rounds: int = 3) -> float | None:
    """Returns this ratio from runs of its own two contenders alone."""
    one, before = next(each for each in comparisons(records) if each.name == name), len(turns.found.runs)
    _run(turns, [one.ours, one.theirs], rounds)
    return one.ratio(turns.found.runs[before:])


def compared(ratios: dict[str, float], file: Path) -> list[Ratio]:
    """Returns each ratio with its recorded one, if there is one."""
    recorded = json.loads(file.read_text())["ratios"] if file.exists() else {}
    return [Ratio(name, ratio, recorded.get(name)) for name, ratio in ratios.items()]


def confirmed(ratios: Iterable[Ratio], again: Callable[[str], float | None]) -> list[Ratio]:
    """Measures each ratio that fell twice more: a machine that was busy for a minute is not a slower Lockstep."""
    return [_confirmed(ratio, again) if ratio.fell else ratio for ratio in ratios]


def _confirmed(ratio: Ratio, again: Callable[[str], float | None]) -> Ratio:
    say(f"{ratio.name}: {ratio.first:.2f} is under half of {ratio.recorded:.2f}, measured {AGAIN} times more")
    more = [again(ratio.name) for _ in range(AGAIN)]
    return replace(ratio, again=tuple(each for each in more if each is not None))


def _run(turns: Ring, sides: Iterable[Side], rounds: int) -> None:
    """Runs the contenders of each part in turns."""
    parts: dict[tuple[str, int, int], list[Contender]] = {}
    for side in sides:
        parts.setdefault((side.part, side.records, side.partitions), []).append(side.contender)
    for (part, records, partitions), contenders in parts.items():
        at = partitions if part == WIDE else records
        turns.rounds(part, contenders, records, partitions, rounds, at=at)


def record(ratios: dict[str, float], machine: dict[str, Any], file: Path) -> None:
    """Records the ratios for the comparison of the next quick bench."""
    document = {"machine": machine, "ratios": {name: round(ratio, 3) for name, ratio in ratios.items()}}
    file.write_text(json.dumps(document, indent=1) + "\n")


def tuned(contender: Contender) -> Contender:
    """Returns the contender with its usually fastest tuning, instead of looking for it."""
    return replace(contender, tunings=(contender.tunings[-1],))
