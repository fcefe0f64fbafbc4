"""Spark, later: an engine that costs nothing until there is something to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.accounting import ManifestLine
    from lockstep.core.columns import Column
    from lockstep.core.staging import Engine, RangeOutcome, RangeTask, StageWork


class SparkLater:
    """The engine that `make` makes, made when an attempt begins: importing PySpark takes longer than planning."""

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._made: Engine | None = None

    def application_id(self) -> str | None:
        """How Spark's own pages call this run."""
        return self._engine().application_id()

    def columns(self, place: int = 0) -> tuple[Column, ...]:
        """The columns that reach the target at this place."""
        return self._engine().columns(place)

    def read(self, work: StageWork) -> tuple[ManifestLine, ...]:
        """Stages every visible record of the ranges."""
        return self._engine().read(work)

    def commit_ranges(self, work: StageWork, task: RangeTask) -> tuple[RangeOutcome, ...]:
        """Reads the ranges in tasks that commit them."""
        return self._engine().commit_ranges(work, task)

    def cancel(self) -> None:
        """Stops the read that is under way; an attempt that can be cancelled has begun."""
        self._engine().cancel()

    def _engine(self) -> Engine:
        if self._made is None:
            self._made = self._make()
        return self._made
