"""Computes how many tasks a read is worth, and which limits and tasks suit the pace of past batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf, log10
from statistics import median
from typing import TYPE_CHECKING

from lockstep.core.planning.batch_size import budget
from lockstep.core.planning.decisions import Pace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockstep.core.pipeline.limits import Limits

OFFSETS_PER_TASK = 10_000
A_COMMIT = 1_000  # offsets: a range that is committed by itself takes longer by about so many
ENOUGH_BATCHES = 5
SHARE_OF_WAIT = 0.5  # of the time between two runs, for one batch
LEAST_SHARE = 0.25  # of a full batch: starting takes most of the time of a smaller one, and its pace tells little
FULL_SHARE = 0.9  # from here on a batch counts as full
CLEARLY = 2.0  # times: a smaller difference is worth no change


def tasks_for(spans: Sequence[int], slots: Callable[[], int], *, may_cut: bool = False) -> int:
    """Returns as many tasks as the offsets justify: at least one, and never more than slots.

    There are never more than ranges, unless it may cut them. Asks for slots only if there is work to share, because
    counting them on a server takes a job.
    """
    warranted = -(-sum(spans) // OFFSETS_PER_TASK)
    warranted = warranted if may_cut else min(len(spans), warranted)
    return min(warranted, slots()) if warranted > 1 else 1


@dataclass(frozen=True, slots=True)
class PastBatch:
    """A committed batch of the live lane: its offsets, and the seconds from its attempt's begin to the commit."""

    offsets: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PastBatches:
    """The newest batches, how many offsets a second arrive, and the bytes of each. None means unknown."""

    batches: tuple[PastBatch, ...] = ()
    arrival: float | None = None
    bytes_per_offset: float | None = None


@dataclass(frozen=True, slots=True)
class Suited:
    """Limits and tasks by which a batch takes half of the time between two runs.

    `full` is the size of a batch at the limits in force. `pace` is how many offsets a second such batches have read.
    `changes` is False if the limits in force do as well. `lags` says that more arrives than is read.
    """

    full: int
    pace: float
    limits: Limits
    tasks: int
    changes: bool
    lags: bool


def suited(
    limits: Limits, past: PastBatches, wait: float, partitions: int, cores: int | None, most: float = inf
) -> Suited | None:
    """Returns the limits that suit the paces of past batches. None if too few batches of a telling size are known.

    `wait` is the seconds between two runs, and `most` the offsets that fit in memory.
    """
    timed = [batch for batch in past.batches if batch.seconds > 0]
    telling = [batch for batch in timed if batch.offsets >= LEAST_SHARE * _full(limits, timed, past, partitions)]
    if len(telling) < ENOUGH_BATCHES:
        return None
    pace, full = _pace(telling), _full(limits, telling, past, partitions)
    side_by_side = min(partitions, cores or partitions)
    tasks = min(side_by_side, ceil(full / OFFSETS_PER_TASK))
    is_full = median(batch.offsets for batch in telling) >= FULL_SHARE * full
    lags = is_full and past.arrival is not None and past.arrival > pace
    if past.arrival is not None and lags:
        more = ceil(round(tasks * past.arrival / (pace * SHARE_OF_WAIT), 6))
        tasks, pace_then = more, pace * more / tasks
    else:
        pace_then = pace
    by_pace = pace_then * wait * SHARE_OF_WAIT
    records = _rounded(min(by_pace, most))
    if not lags:
        tasks = min(side_by_side, ceil(records / OFFSETS_PER_TASK))
    too_small = is_full and not _by_bytes(limits, past, full) and records > CLEARLY * full
    changes = lags or full > CLEARLY * by_pace or too_small
    share = limits.per_partition and max(limits.per_partition, _rounded(records / partitions, up=True))
    wanted = replace(limits, records=records, per_partition=share, seconds=round(wait * SHARE_OF_WAIT, 1))
    return Suited(full, pace, wanted, tasks, changes, lags)


def _pace(batches: Sequence[PastBatch]) -> float:
    return median(batch.offsets / batch.seconds for batch in batches)


def _full(limits: Limits, batches: Sequence[PastBatch], past: PastBatches, partitions: int) -> int:
    """Returns the offsets of a batch at its limits, at the pace of these batches."""
    pace = Pace(_pace(batches) if batches else None, past.bytes_per_offset)
    return min(budget(limits, pace), (limits.per_partition or limits.records) * partitions)


def _by_bytes(limits: Limits, past: PastBatches, full: int) -> bool:
    """Tells if bytes are the tight limit. They are for memory, whatever the pace is."""
    size = past.bytes_per_offset
    return bool(limits.bytes and size and int(limits.bytes / size) <= full)


def _rounded(number: float, *, up: bool = False) -> int:
    """Returns the number with its two leading digits, and at least 1."""
    whole = max(1, ceil(number) if up else int(number))
    unit: int = 10 ** max(0, int(log10(whole)) - 1)
    return -(-whole // unit) * unit if up else whole // unit * unit
