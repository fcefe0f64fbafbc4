"""Defines what an engine must read, and where it stages the records."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.core.lake.files import LakeWork
    from lockstep.core.offsets import OffsetRange, StreamRange
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.retention.archive import ArchivedFile

STAGING_SCHEMA = "lockstep_staging"
COPY_SIZE = 2**20  # bytes that COPY gets at a time
NO_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)  # for no batch, as on the empty frame of `check`

NONCE_DIGITS = 12  # of the nonce in a table's name, which may have 63 characters
_TABLE = re.compile(rf"attempt_(\d+)_(\d+)(?:_([0-9a-f]{{{NONCE_DIGITS}}}))?(?:_(?:\d+|raw|part_\d+))?")


def stager_of(table: str) -> str:
    """Returns the name of the sessions that write this staging table.

    The table may be of the first target, of another one, or of the bytes. Returns an empty text for any other table.
    """
    match = _TABLE.fullmatch(table)
    return "lockstep stage " + ".".join(part for part in match.groups() if part) if match else ""


@dataclass(frozen=True, slots=True, order=True)
class AttemptId:
    """One try at a batch, which names its own staging table inside `STAGING_SCHEMA`.

    `nonce` is a random id, drawn when the attempt is opened. A restored ledger draws batch ids and tokens again, but
    never a nonce. Attempts of code from before migration 0018 have none.
    """

    batch_id: int
    token: int
    nonce: str | None = None

    @property
    def table(self) -> str:
        """Returns the staging table of this attempt and no other."""
        return "_".join(["attempt", str(self.batch_id), str(self.token), *self._short])

    @property
    def stager(self) -> str:
        """Returns the name of the sessions that stage for this attempt, by which they are found and ended."""
        return "lockstep stage " + ".".join([str(self.batch_id), str(self.token), *self._short])

    @property
    def fence(self) -> str | int:
        """Returns token and nonce in one value, as Airflow carries it from task to task."""
        return self.token if self.nonce is None else f"{self.token}.{self.nonce}"

    @classmethod
    def of_fence(cls, batch_id: int, fence: str | int) -> AttemptId:
        """Parses the value of `fence`. A token alone comes from a task of older code."""
        token, _, nonce = str(fence).partition(".")
        return cls(batch_id, int(token), nonce or None)

    @property
    def _short(self) -> tuple[str, ...]:
        return () if self.nonce is None else (self.nonce.replace("-", "")[:NONCE_DIGITS],)

    def beside(self, place: int) -> str:
        """Returns the staging table of the target at this place. The first target's has no number."""
        return f"{self.table}_{place + 1}" if place else self.table

    @property
    def raw_table(self) -> str:
        """Returns the table for the bytes of a transform's input, if they are kept."""
        return f"{self.table}_raw"


@dataclass(frozen=True, slots=True)
class HiddenRows:
    """The rows that an attempt's tasks have copied into their table, which a view hides until the commit.

    `columns` are the decoded ones, and `digested` those of the rows' digest, with their types.
    """

    table: str
    columns: tuple[str, ...]
    digested: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """The facts of a batch that a transform may use.

    They are the same at every attempt, so a retry gives the same rows. `planned_at` is the time when the batch was
    recorded, in UTC. `ranges` are all offsets that were planned for it, ordered by topic and partition. That
    includes those which an earlier attempt has committed. A replay has time and ranges of the replaying batch. On the
    empty frame of `lockstep check` there are none.
    """

    pipeline: str
    batch_id: int = 0
    planned_at: datetime = NO_MOMENT
    ranges: tuple[OffsetRange, ...] = ()


@dataclass(frozen=True, slots=True)
class StageWork:
    """The reading of one attempt: exactly these ranges, into this staging table with these decoded columns.

    `beside` has the columns of the targets after the first. Each of these has a staging table of its own. `hidden`
    are records of one offset each that come without their bytes, because they kill their reader. `busy` are those of
    them that keep it busy. `after_task` is set after a reader has died. Nothing of tasks up to this number counts,
    and the short ways are not used. `planned` are all ranges of the batch, for a transform. `archived` are the files
    of ranges that begin below their log's start. Rows of the targets of `lakes` go into files there, and are not
    staged.
    """

    pipeline: str
    batch_id: int
    token: int
    ranges: tuple[StreamRange, ...]
    columns: tuple[Column, ...]
    beside: tuple[tuple[Column, ...], ...] = ()
    planned_at: datetime = NO_MOMENT
    nonce: str | None = None
    hidden: tuple[StreamRange, ...] = ()
    busy: tuple[StreamRange, ...] = ()
    after_task: int | None = None
    archived: tuple[ArchivedFile, ...] = ()
    lakes: tuple[LakeWork, ...] = ()
    planned: tuple[OffsetRange, ...] = ()

    @property
    def attempt(self) -> AttemptId:
        """Returns the attempt that reads."""
        return AttemptId(self.batch_id, self.token, self.nonce)

    @property
    def table(self) -> str:
        """Returns the name of the attempt's own staging table, inside `STAGING_SCHEMA`."""
        return self.attempt.table

    @property
    def tables(self) -> tuple[tuple[str, tuple[Column, ...]], ...]:
        """Returns each target's staging table and columns, in the definition's order."""
        attempt = self.attempt
        return tuple((attempt.beside(place), columns) for place, columns in enumerate((self.columns, *self.beside)))

    @property
    def stager(self) -> str:
        """Returns the name of the sessions that stage for it."""
        return self.attempt.stager

    @property
    def from_offsets(self) -> dict[int, int]:
        """Returns, per stream, the first offset of its range."""
        return {item.stream_id: item.offsets.from_offset for item in self.ranges}

    @property
    def run(self) -> Run:
        """Returns the facts of the batch for the transform."""
        return Run(self.pipeline, self.batch_id, self.planned_at, self.planned)

    @property
    def raw_table(self) -> str:
        """Returns the name of the table for the bytes of a transform's input."""
        return self.attempt.raw_table
