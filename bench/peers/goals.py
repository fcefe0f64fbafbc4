"""Lists the goals of Lockstep by name, and if each was reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from peers.cold import FAT, SUBMITTED
from peers.contender import APPEND, BARE, KEYED_LIMIT, OURS, PEER, UPSERT
from peers.field import (
    ALL_CORES,
    ATTACHED,
    AVAILABLE_NOW,
    BINARY_4,
    FLINK_APPEND,
    ONCE_WRITTEN,
    OUR_UPSERT,
    OUR_UPSERT_BY_PARTITION,
    PER_BATCH,
    PER_PARTITION,
    PYTHON_COPY,
)
from peers.found import COLD, PARTITIONS, SIZES, THROUGHPUT, median

if TYPE_CHECKING:
    from peers.found import Found

FEW, MANY, SMALL = 4, 512, 1_000


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure and its bound. `found` is None if the figure was not measured."""

    name: str
    wanted: str
    bound: float
    found: float | None
    at_least: bool = True

    @property
    def met(self) -> bool | None:
        """Returns True if the goal was reached, or None if nothing was measured."""
        if self.found is None:
            return None
        return self.found >= self.bound if self.at_least else self.found <= self.bound


def goals(found: Found) -> list[Goal]:
    """Returns all goals, in their order."""
    append = found.best(THROUGHPUT, family=PEER, kind=APPEND) or ""
    upsert = found.best(THROUGHPUT, family=PEER, kind=UPSERT) or ""
    ours, theirs = PER_BATCH.name, AVAILABLE_NOW.name
    faults = [(run.lost or 0) + (run.doubled or 0) for run in found.runs if run.family == OURS]
    peers = f"the best peer's append ({append})"
    to_copy = "bare binary COPY by 4 connections"
    return [
        Goal(f"PerBatch append to {peers}", ">= 1.5", 1.5, found.ratio(THROUGHPUT, ours, append)),
        Goal("the same into a table by batch", ">= 1.5", 1.5, found.ratio(THROUGHPUT, ATTACHED.name, append)),
        Goal(f"PerBatch append to {to_copy}", ">= 0.15", 0.15, found.ratio(THROUGHPUT, ours, BINARY_4.name)),
        Goal(
            "the same into a table by batch",
            ">= 0.15",
            0.15,
            found.ratio(THROUGHPUT, ATTACHED.name, BINARY_4.name),
        ),
        *_behind_a_view(found),
        Goal(f"PerPartition append to {peers}", ">= 2", 2, found.ratio(THROUGHPUT, PER_PARTITION.name, append)),
        Goal(
            f"PerBatch upsert to the best peer's upsert ({upsert})",
            ">= 1.2",
            1.2,
            found.ratio(THROUGHPUT, OUR_UPSERT.name, upsert),
        ),
        Goal(
            "PerPartition upsert to the same",
            ">= 1.2",
            1.2,
            found.ratio(THROUGHPUT, OUR_UPSERT_BY_PARTITION.name, upsert),
        ),
        Goal("rows lost or doubled by Lockstep, in all runs", "0", 0, sum(faults) if faults else None, at_least=False),
        Goal(
            "a warm run of 1,000 records to AvailableNow's trigger",
            "<= 0.5",
            0.5,
            _to_trigger(found, ours, theirs),
            at_least=False,
        ),
        Goal("an idle run, ms", "<= 30", 30, _idle(found, ours), at_least=False),
        Goal(
            "cold spark-submit of 1,000 records to the same without archive and diet",
            "<= 0.75",
            0.75,
            _inverse(found.ratio(COLD, SUBMITTED, FAT)),
            at_least=False,
        ),
        Goal(
            "1,000 records in 512 partitions to 1,000 in 4", "<= 4", 4, _growth(found, PER_BATCH.name), at_least=False
        ),
    ]


def _behind_a_view(found: Found) -> list[Goal]:
    """Returns the goals of rows that are written once, each held against another contender."""
    keyed = found.best(THROUGHPUT, family=BARE, kind=KEYED_LIMIT)
    bounds = (
        (1.5, "PerBatch into the same table", PER_BATCH.name),
        (0.9, "PerPartition", PER_PARTITION.name),
        (1.6, FLINK_APPEND.name, FLINK_APPEND.name),
        (0.95, PYTHON_COPY[ALL_CORES].name, PYTHON_COPY[ALL_CORES].name),
        (0.35, "COPY into the same table", keyed),
    )
    return [
        Goal(
            f"PerBatch append behind a view to {said}",
            f">= {bound:g}",
            bound,
            found.ratio(THROUGHPUT, ONCE_WRITTEN.name, name) if name else None,
        )
        for bound, said, name in bounds
    ]


def _to_trigger(found: Found, ours: str, theirs: str) -> float | None:
    """Returns the ratio of our whole run to Spark's own time of its triggers, without the start of the query."""
    triggers = {run.number: run.steps.get("trigger", run.seconds) for run in found.of(SIZES, theirs, SMALL)}
    return median(
        [run.seconds / triggers[run.number] for run in found.of(SIZES, ours, SMALL) if triggers.get(run.number)]
    )


def _idle(found: Found, name: str) -> float | None:
    seconds = found.seconds(SIZES, name, 0)
    return None if seconds is None else 1000 * seconds


def _growth(found: Found, name: str) -> float | None:
    few = {run.number: run.seconds for run in found.of(PARTITIONS, name, FEW)}
    return median([run.seconds / few[run.number] for run in found.of(PARTITIONS, name, MANY) if run.number in few])


def _inverse(ratio: float | None) -> float | None:
    return None if ratio is None else 1 / ratio
