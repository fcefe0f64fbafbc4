"""Defines the engine's account of its own work at an attempt: its pages, its stages, memory and garbage collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

LOCAL, CLUSTER, SERVER = "local", "cluster", "server"
MOST_STAGES = 40  # that are kept of an attempt: the slowest ones


@dataclass(frozen=True, slots=True)
class Application:
    """The engine's name for its run, with the addresses of its pages and its event log, where there are any."""

    id: str
    ui: str | None = None
    event_log: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One try of one stage. Median and longest are those of the tasks that succeeded, None if none did."""

    stage: int
    try_number: int
    name: str
    state: str
    began_at: datetime | None
    seconds: float | None
    tasks: int
    failed_tasks: int
    median_seconds: float | None
    longest_seconds: float | None
    gc_seconds: float
    input_records: int
    input_bytes: int
    shuffle_bytes: int
    spilled_bytes: int
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The engine's own account of an attempt. None means that it does not say.

    `stages` are those that ran, in their order. The heap is that of the fullest JVM, its peak an upper bound. `records`
    are those that the engine itself has counted as they came from its tasks.
    """

    place: str
    stages: tuple[Stage, ...] | None = None
    heap_peak_bytes: int | None = None
    heap_limit_bytes: int | None = None
    gc_seconds: float | None = None
    records: int | None = None

    @property
    def slowest(self) -> tuple[Stage, ...]:
        """Returns the stages that are kept, in their order: all of them, or the slowest ones of many."""
        longest = sorted(self.stages or (), key=lambda each: each.seconds or 0.0, reverse=True)[:MOST_STAGES]
        return tuple(sorted(longest, key=lambda each: (each.stage, each.try_number)))
