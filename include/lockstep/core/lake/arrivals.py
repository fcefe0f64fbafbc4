"""Reads what snapshots and properties of a table elsewhere tell of deliveries, and judges a delivery by it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.core.lake.files import MAX_RANGES_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Ranges = tuple[tuple[int, int, int], ...]  # stream, from, until
PREFIX = "lockstep."


@dataclass(frozen=True, slots=True)
class Arrival:
    """A delivery that a table tells of. `ranges` is empty where only its property still does."""

    batch_id: int
    token: int
    ranges: Ranges = ()


def told_of(pipeline: str, arrival: Arrival, lane: str, code: str) -> dict[str, str]:
    """Returns what the snapshot of a delivery says of it. Very many ranges are left out."""
    ranges = json.dumps([list(each) for each in arrival.ranges], separators=(",", ":"))
    facts = {
        "pipeline": pipeline,
        "batch": str(arrival.batch_id),
        "token": str(arrival.token),
        "lane": lane,
        "code": code,
    }
    facts |= {"streams": ranges} if len(ranges) <= MAX_RANGES_SIZE else {}
    return {f"{PREFIX}{name}": value for name, value in facts.items()}


def arrival_in_summary(pipeline: str, summary: Mapping[str, str]) -> Arrival | None:
    """Returns the delivery that a snapshot is, or None for a snapshot of anybody else."""
    if summary.get(f"{PREFIX}pipeline") != pipeline:
        return None
    try:
        ranges = tuple((int(s), int(a), int(b)) for s, a, b in json.loads(summary.get(f"{PREFIX}streams") or "[]"))
        return Arrival(int(summary[f"{PREFIX}batch"]), int(summary[f"{PREFIX}token"]), ranges)
    except (KeyError, ValueError, TypeError):
        return None


def property_of(pipeline: str, arrival: Arrival) -> dict[str, str]:
    """Returns the property that outlives the snapshot of the last delivery."""
    return {f"{PREFIX}{pipeline}": f"{arrival.batch_id}:{arrival.token}"}


def arrival_in_property(pipeline: str, properties: Mapping[str, str]) -> Arrival | None:
    """Returns the last delivery by the property of a table, or None if it has none."""
    batch_id, colon, token = properties.get(f"{PREFIX}{pipeline}", "").partition(":")
    return Arrival(int(batch_id), int(token)) if colon and batch_id.isdecimal() and token.isdecimal() else None


def other_writer(pipeline: str, properties: Mapping[str, str]) -> str | None:
    """Returns another pipeline that has delivered into a table, whatever ledger it is of."""
    names = (name.removeprefix(PREFIX) for name in sorted(properties) if name.startswith(PREFIX))
    return next((name for name in names if name != pipeline), None)


def newer_than(mine: Arrival, found: Iterable[Arrival]) -> Arrival | None:
    """Returns the newest delivery of a later attempt for the batch or its offsets, or None."""
    later = [
        each for each in found if each.token > mine.token and (each.batch_id == mine.batch_id or _meet(each, mine))
    ]
    return max(later, key=lambda each: each.token, default=None)


def has_arrived(mine: Arrival, found: Sequence[Arrival]) -> bool:
    """Returns True if the delivery of exactly this attempt is among those that were found."""
    return any((each.batch_id, each.token) == (mine.batch_id, mine.token) for each in found)


def _meet(one: Arrival, other: Arrival) -> bool:
    return any(s == t and a < d and c < b for s, a, b in one.ranges for t, c, d in other.ranges)
