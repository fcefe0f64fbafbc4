"""Holds the measurements, as values and as a file from which the page can be written again."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

THROUGHPUT, SIZES, PARTITIONS, COLD, CORES = PARTS = ("throughput", "sizes", "partitions", "cold", "cores")


@dataclass(frozen=True, slots=True)
class Run:
    """One measured run. `at` is the varied number: records, partitions, cores. `cpu` is in seconds, `peak` in MiB.

    `engine` is the program that did the work. `bad` is how many records must be rejects, and `rejects` how many are.
    """

    part: str
    contender: str
    family: str
    kind: str
    number: int
    at: int
    records: int
    seconds: float
    steps: dict[str, float] = field(default_factory=dict)
    cpu: float = 0.0
    peak: float = 0.0
    lost: int | None = None
    doubled: int | None = None
    workload: str = ""
    engine: str = ""
    rejects: int | None = None
    bad: int = 0

    @property
    def is_right(self) -> bool:
        """Returns True if every row is there once, as it was produced, and every bad record is a reject."""
        return not self.lost and not self.doubled and self.rejects in {None, self.bad}

    @property
    def rate(self) -> float:
        """Returns rows per second."""
        return self.records / self.seconds


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The runs of one contender that do not count, at one size, in their order."""

    contender: str
    at: int
    seconds: tuple[float, ...]
    is_warm: bool


@dataclass(slots=True)
class Found:
    """All runs, the machine, the warm-ups and tunings of contenders, and those that did not run, with the reason.

    `tries` are runs of warm-ups and tunings, which no ratio uses. `took` has each part's minutes, `settings`
    Postgres's.
    """

    machine: dict[str, Any] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    tuned: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    tries: list[Run] = field(default_factory=list)
    warm_ups: list[WarmUp] = field(default_factory=list)
    took: dict[str, float] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)

    def of(self, part: str, contender: str, at: int | None = None) -> list[Run]:
        """Returns the runs of one contender in the order of their rounds."""
        return [
            run for run in self.runs if run.part == part and run.contender == contender and (at is None or run.at == at)
        ]

    def names(self, part: str, *, family: str = "", kind: str = "") -> list[str]:
        """Returns the contenders that ran, in the order of their first runs."""
        fitting = (
            run for run in self.runs if run.part == part and family in {"", run.family} and kind in {"", run.kind}
        )
        return list(dict.fromkeys(run.contender for run in fitting))

    def seconds(self, part: str, contender: str, at: int | None = None) -> float | None:
        """Returns the median, or None if it did not run."""
        return median([run.seconds for run in self.of(part, contender, at)])

    def rate(self, part: str, contender: str) -> float | None:
        """Returns the median rows per second."""
        return median([run.rate for run in self.of(part, contender)])

    def ratio(self, part: str, one: str, other: str, at: int | None = None) -> float | None:
        """Returns how many times as fast the first is as the second: the median over the rounds that both ran."""
        theirs = {run.number: run.seconds / max(run.records, 1) for run in self.of(part, other, at)}
        ours = {run.number: run.seconds / max(run.records, 1) for run in self.of(part, one, at)}
        return median([theirs[number] / ours[number] for number in ours if number in theirs])

    def best(self, part: str, *, family: str, kind: str, but: Collection[str] = ()) -> str | None:
        """Returns the contender with the highest median rate, except for those in `but`."""
        names = (name for name in self.names(part, family=family, kind=kind) if name not in but)
        return max(names, key=lambda name: self.rate(part, name) or 0.0, default=None)

    def save(self, file: Path) -> None:
        """Writes the measurements as JSON."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), indent=1))


def load(file: Path) -> Found:
    """Reads the file that `save` wrote."""
    document = json.loads(file.read_text())
    document["runs"], document["tries"] = ([Run(**run) for run in document.get(name, [])] for name in ("runs", "tries"))
    document["warm_ups"] = [
        WarmUp(**each | {"seconds": tuple(each["seconds"])}) for each in document.get("warm_ups", [])
    ]
    return Found(**document)


def median(values: list[float]) -> float | None:
    """Returns the median, or None of an empty list."""
    return statistics.median(values) if values else None
