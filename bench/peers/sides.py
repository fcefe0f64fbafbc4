"""Compares two contenders, each in a part of its own, by the rounds that both ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from peers.found import median

if TYPE_CHECKING:
    from collections.abc import Iterable

    from peers.contender import Contender
    from peers.found import Run

FOUR = 4


@dataclass(frozen=True, slots=True)
class Side:
    """A contender in a part: what it writes there, and from a topic of how many partitions."""

    part: str
    contender: Contender
    records: int
    partitions: int = FOUR

    def seconds(self, runs: Iterable[Run]) -> dict[int, float]:
        """Returns the seconds for a record, by round."""
        mine = (run for run in runs if (run.part, run.contender) == (self.part, self.contender.name))
        return {run.number: run.seconds / max(run.records, 1) for run in mine}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two sides: the first is measured against the second."""

    name: str
    ours: Side
    theirs: Side

    def ratios(self, runs: Iterable[Run]) -> list[float]:
        """Returns how many times as fast the first is, in each of the rounds that both ran."""
        runs = list(runs)
        ours, theirs = self.ours.seconds(runs), self.theirs.seconds(runs)
        return [theirs[number] / ours[number] for number in ours if number in theirs]

    def ratio(self, runs: Iterable[Run]) -> float | None:
        """Returns the median of these ratios."""
        return median(self.ratios(runs))
