"""Defines the contents of a delivery to a store, and what every store must be able to do with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lockstep.core.errors import Superseded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from psycopg2.extensions import cursor

    from lockstep.core.changes.restored import SeenBatch
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import AttemptId
    from lockstep.core.states import Lane

Range = tuple[int, int, int]  # stream, from, until
FoundDelivery = tuple[
    int, int, int, int
]  # rows, distinct offsets, the sum of their distances from the beginning, and of the squares


class NewerArrival(Superseded):
    """A store that holds the delivery of a newer attempt. `batch_id` and `token` name that attempt."""

    def __init__(self, message: str, batch_id: int, token: int) -> None:
        super().__init__(message)
        self.batch_id = batch_id
        self.token = token


@dataclass(frozen=True, slots=True)
class Delivery:
    """The rows of one attempt for these offsets, `count` of them.

    They lie in the folder `spool` until they are brought. `columns` are the decoded ones with their staged types.
    `epochs` order the streams. A replay takes old rows out first. `code` is the hash of the definition. `former` are
    names that the pipeline had before. A store without a fence of its own calls `fence`. It raises `Superseded` if another
    attempt has the offsets by now.
    """

    pipeline: Pipeline
    attempt: AttemptId
    lane: Lane
    ranges: tuple[Range, ...]
    epochs: Mapping[int, int]
    columns: tuple[tuple[str, str], ...]
    count: int
    spool: Path
    code: str = ""
    fence: Callable[[], None] = field(default=lambda: None, compare=False)
    former: tuple[str, ...] = ()


class Results(Protocol):
    """A place where results live.

    It is asked before the read, it receives the rows, and `verify` reads it.
    """

    def require_fit(self, pipeline: Pipeline, columns: Sequence[Column]) -> None:
        """Refuses a place that could not take these columns, or could not keep the guarantee."""

    def make(self, folder: PipelineFolder) -> str:
        """Makes everything that the pipeline needs there. Returns the name of the table or folder."""

    def take(self, cur: cursor, delivery: Delivery) -> None:
        """Copies the staged rows into the spool, within the caller's transaction in the ledger."""

    def bring(self, delivery: Delivery) -> dict[str, int]:
        """Makes the spooled rows results, durably. Returns what was done.

        Raises `Superseded` if a newer delivery has come.
        """

    def seen(self, pipeline: Pipeline) -> tuple[SeenBatch, ...]:
        """Returns everything that was delivered there, by batch and stream."""

    def counts(self, pipeline: Pipeline, ranges: Sequence[Range]) -> dict[Range, FoundDelivery]:
        """Returns the contents of each of these offset ranges: rows, offsets and digest."""

    def stranger(self, pipeline: Pipeline, owners: Sequence[tuple[int, int, int, int]]) -> str | None:
        """Returns the first row whose batch does not own its offset. `owners` are (batch, stream, from, until)."""

    def offsets(self, pipeline: Pipeline, stream_id: int) -> Iterator[int]:
        """Yields the offset of every row of a stream, in order."""

    def rows_of_offset(self, pipeline: Pipeline, stream_id: int, offset: int) -> list[dict[str, Any]]:
        """Returns the rows of one record."""
