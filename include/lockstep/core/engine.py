"""Defines what an engine is: a reader of ranges that leads their rows into a sink."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from typing import BinaryIO

    from lockstep.core.figures import Application, Figures
    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.planning.routes import Route
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.core.staging import AttemptId, StageWork
    from lockstep.core.states import RangeEnd

    Pieces = Callable[[], Iterable[BinaryIO]]

Report = TypeVar("Report")


class Sink(Generic[Report]):
    """The destination of a read's rows. Tasks answer with a `Report` for each stream that delivered anything."""


class Staging(Sink["ManifestLine"]):
    """The attempt's staging tables. The batch's one transaction publishes their rows later."""


@dataclass(frozen=True, slots=True, order=True)
class RangeOutcome:
    """The outcome of one range in its task. `refused` and `moved` have a reason."""

    stream_id: int
    what: RangeEnd
    reason: str | None = None


class RangeTask(Sink[RangeOutcome], ABC):
    """All that a task needs to commit each range by itself. Executors get it by value."""

    attempt: AttemptId  # that the ranges belong to
    may_cut: bool = False  # whether several tasks may take pieces of one range

    def of_part(self, _part: Sequence[StreamRange]) -> RangeTask:
        """Returns what a task with this part of the ranges is given, which may be pieces of them."""
        return self

    @abstractmethod
    def session(self) -> AbstractContextManager[RangeSession]:
        """Connects, and records the connection so that a newer attempt can end it."""


class RangeSession(Protocol):
    """One task's connection to the ledger.

    It takes a range's rows piece by piece, and commits them with the range's offsets.
    """

    @property
    def straight(self) -> tuple[str, ...]:
        """Returns the columns of rows that may come with the commit. Returns none if all are copied before."""

    @property
    def keeps_bytes(self) -> bool:
        """Returns True if the bytes of records come with the commit, for an expectation may quarantine them."""

    def reads_on(self) -> None:
        """Forgets what the log was like, because more has been read since."""

    def is_committed(self, stream_id: int) -> bool:
        """Returns True if the range's commit row is there. The acknowledgement of its COMMIT may be lost."""

    def copy(self, stream_id: int, names: Sequence[str], rows: BinaryIO) -> None:
        """Copies rows of the range, in COPY's binary format, with these columns. No other session sees them."""

    def commit(self, line: ManifestLine, rows: Pieces | None = None, kept: Pieces | None = None) -> RangeOutcome:
        """Commits the range that the line is about, read to its end, with all of its copied rows.

        `rows` returns those that go straight, in COPY's binary format, and `kept` the bytes of their records. Both are
        called again if the commit is tried again.
        """


class LeftToSpark(Exception):  # noqa: N818 - an answer, and nobody's fault
    """A record that keeps the decoder of this process busy. Spark's tasks must decode it, and may end."""


class Engine(Protocol):
    """A reader of ranges: this process or Spark in the product, plain Python in tests of what surrounds it."""

    def route(self) -> Route:
        """Returns the way of the next batch, and why."""

    def application(self, work: StageWork) -> Application | None:
        """Returns the coming run's name and addresses on the engine's own pages, or None if it has none."""

    def figures(self, work: StageWork) -> Figures | None:
        """Returns what the engine says of its work so far, or None if it took no part in it."""

    def columns(self, place: int = 0) -> tuple[Column, ...]:
        """Returns the columns that reach the target at this place of the definition, found on an empty frame."""

    def read(self, work: StageWork, sink: Sink[Report]) -> tuple[Report, ...]:
        """Reads every visible record of the ranges into the sink, and returns the reports of the tasks that won.

        Returns only when every task came to the end of its input.
        """

    def cancel(self) -> None:
        """Stops a read that is under way. The lease's thread calls it."""
