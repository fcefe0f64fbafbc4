"""What an engine is told to read, and where it stages what it read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lockstep.core.accounting import ManifestLine
    from lockstep.core.columns import Column
    from lockstep.core.offsets import StreamRange

STAGING_SCHEMA = "lockstep_staging"

# Every staging table begins with these; the decoded columns follow. `_task` is Spark's task attempt id: rows of tasks
# that are in no kept manifest are never published. The last four are filled for rejects only, and the bytes for every record
# where an expectation may yet put it aside.
RESERVED_COLUMNS = (
    ("_stream", "integer"),
    ("_offset", "bigint"),
    ("_ordinal", "integer"),
    ("_task", "bigint"),
    ("_timestamp", "timestamptz"),
    ("_deleted", "boolean"),
    ("_reason", "text"),
    ("_key", "bytea"),
    ("_value", "bytea"),
    ("_headers", "text"),
)

# What a transform does not pass on, kept beside it where an expectation may put a record aside.
RAW_COLUMNS = tuple(
    (name, type_)
    for name, type_ in RESERVED_COLUMNS
    if name in {"_stream", "_offset", "_task", "_timestamp", "_key", "_value", "_headers"}
)


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """One try at a batch, and the name of its own staging table inside `STAGING_SCHEMA`."""

    batch_id: int
    token: int

    @property
    def table(self) -> str:
        """The staging table of this attempt and no other."""
        return f"attempt_{self.batch_id}_{self.token}"

    @property
    def raw_table(self) -> str:
        """Where the bytes of what a transform was given stand, if they are kept."""
        return f"{self.table}_raw"


@dataclass(frozen=True, slots=True)
class StageWork:
    """One attempt's reading: these ranges, exactly, into this staging table with these decoded columns."""

    pipeline: str
    batch_id: int
    token: int
    ranges: tuple[StreamRange, ...]
    columns: tuple[Column, ...]

    @property
    def table(self) -> str:
        """The name of the attempt's own staging table, inside `STAGING_SCHEMA`."""
        return AttemptId(self.batch_id, self.token).table

    @property
    def raw_table(self) -> str:
        """The name of the table for the bytes of what a transform is given."""
        return AttemptId(self.batch_id, self.token).raw_table


class Engine(Protocol):
    """Whatever reads ranges and stages rows: Spark in the product, plain Python in tests of what surrounds it."""

    def application_id(self) -> str | None:
        """How the engine's own pages call this run."""

    def columns(self) -> tuple[Column, ...]:
        """The columns that leave the transform, found on an empty frame."""

    def read(self, work: StageWork) -> tuple[ManifestLine, ...]:
        """Reads every visible record of the ranges and returns the lines of the tasks that won."""

    def cancel(self) -> None:
        """Stops a read that is under way; called from the lease's thread."""
