"""Reads a small batch in the driver. Starts Spark for larger batches, and for records that the driver cannot decode."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockstep.core.errors import Superseded
from lockstep.core.guarantees import EACH_STREAM, commit_unit
from lockstep.core.staging import LeftToSpark

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.adapters.driver import Driver
    from lockstep.core.accounting import ManifestLine
    from lockstep.core.columns import Column
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.staging import Engine, RangeOutcome, RangeTask, StageWork

# For a batch with more of them, Spark's parallel tasks are faster than one process.
OFFSETS = 20_000
RANGES = 64  # ranges that are committed one by one


class DriverFirst:
    """An engine that reads batches of at most `offsets` with `driver`, if it can, and all others with `spark`.

    Makes each when it is first needed, because importing PySpark alone takes longer than planning. A batch with a
    record that the driver cannot decode leaves nothing behind. Spark then reads that whole batch, and all later ones.
    """

    def __init__(
        self, folder: PipelineFolder, driver: Callable[[], Driver], spark: Callable[[], Engine], offsets: int = OFFSETS
    ) -> None:
        self._folder = folder
        self._make_driver, self._make_spark = driver, spark
        self._driver: Driver | None = None
        self._spark: Engine | None = None
        self._offsets = offsets
        self._cancelled = False

    def application_id(self, work: StageWork) -> str | None:
        """Returns the run's name on Spark's own pages, or None if Spark takes no part in it."""
        return None if self._reader(work) else self._engine().application_id(work)

    def columns(self, place: int = 0) -> tuple[Column, ...]:
        """Returns the columns that reach the target at this place."""
        if not place:  # an attempt begins: a cancel of the previous one does not concern it
            self._cancelled = False
        if self._spark is None and self._folder.is_straight:
            return self._folder.pipeline.columns
        return self._engine().columns(place)

    def read(self, work: StageWork) -> tuple[ManifestLine, ...]:
        """Stages every visible record of the ranges."""
        if driver := self._reader(work):
            try:
                return driver.read(work, partial(self._require_wanted, work))
            except LeftToSpark:
                self._offsets = 0
        return self._engine().read(work)

    def commit_ranges(self, work: StageWork, task: RangeTask) -> tuple[RangeOutcome, ...]:
        """Reads the ranges in tasks that commit them. Spark finds the ranges that the driver has committed before."""
        if driver := self._reader(work):
            try:
                return driver.commit_ranges(work, task, partial(self._require_wanted, work))
            except LeftToSpark:
                self._offsets = 0
        return self._engine().commit_ranges(work, task)

    def cancel(self) -> None:
        """Stops the current read, and one that has not begun yet."""
        self._cancelled = True
        if self._spark is not None:
            self._spark.cancel()

    def _require_wanted(self, work: StageWork) -> None:
        if self._cancelled:
            raise Superseded(f"batch {work.batch_id} was taken over while it was being read")

    def _reader(self, work: StageWork) -> Driver | None:
        """Returns the driver, if it can read this work and the work is small enough."""
        most = RANGES if commit_unit(self._folder.pipeline.guarantee) == EACH_STREAM else len(work.ranges)
        if len(work.ranges) > most or sum(item.offsets.span for item in work.ranges) > self._offsets:
            return None
        if self._driver is None:
            self._driver = self._make_driver()
        return self._driver if self._driver.can_read else None

    def _engine(self) -> Engine:
        if self._spark is None:
            self._spark = self._make_spark()
            if self._cancelled:
                self._spark.cancel()
        return self._spark
