"""Counts delivered, written, filtered and rejected records, with the digest that proves which offsets they had."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lockstep.core.errors import BadData

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from lockstep.core.lake.files import LakeFile
    from lockstep.core.offsets import StreamRange

REJECTS_ALWAYS_TAKEN = 100


@dataclass(frozen=True, slots=True)
class Digest:
    """The exact fingerprint of a set of offsets: (n, Σd, Σd²) with d = offset - from_offset.

    Any system can compute it.
    """

    n: int = 0
    sum: int = 0
    squares: int = 0

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.n + other.n, self.sum + other.sum, self.squares + other.squares)

    @staticmethod
    def of(offsets: Iterable[int], from_offset: int) -> Digest:
        """Returns the digest of these offsets of a range that begins at `from_offset`."""
        distances = [offset - from_offset for offset in offsets]
        return Digest(len(distances), sum(distances), sum(d * d for d in distances))


@dataclass(frozen=True, slots=True)
class ManifestLine:
    """The counts of one Spark task for one stream: records, and in `rows` the staged rows without rejects.

    If a shuffle follows, one task reads and another writes. Then only the sum over a stream reconciles. `rows` counts
    the rows of all targets. If there are several, `rows_of` counts those of each, in the definition's order.

    With `files`, the task has written rows of the targets at these places there, and read them back. Its first line has them.

    `bytes` is the size of keys and values as delivered. The first and last offsets are None if nothing was delivered.
    """

    task: int
    stream_id: int
    delivered: int
    written: int
    rejected: int
    rows: int
    bytes: int
    digest: Digest
    first_offset: int | None = None
    last_offset: int | None = None
    min_timestamp: datetime | None = None
    max_timestamp: datetime | None = None
    rows_of: tuple[int, ...] = ()
    files: Mapping[int, tuple[LakeFile, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if min(self.delivered, self.written, self.rejected, self.rows) < 0:
            raise BadData(f"stream {self.stream_id}: task {self.task} counted below zero")
        if self.rows_of and sum(self.rows_of) != self.rows:
            raise BadData(
                f"stream {self.stream_id}: task {self.task} staged {self.rows} rows, by target {self.rows_of}"
            )
        if self.digest.n != self.delivered:
            raise BadData(
                f"stream {self.stream_id}: the digest has {self.digest.n} records, delivered are {self.delivered}"
            )


def rows_at(line: ManifestLine, place: int) -> int:
    """Returns the rows that a task counted for the target at this place."""
    return line.rows_of[place] if line.rows_of else line.rows


def nothing(item: StreamRange) -> ManifestLine:
    """Returns the line of offsets that delivered no record."""
    return ManifestLine(0, item.stream_id, delivered=0, written=0, rejected=0, rows=0, bytes=0, digest=Digest())


def too_many_rejects(rejected: int, delivered: int, max_share: float) -> bool:
    """Returns True if so many records were rejected that the schema, not the data, must be wrong (T14)."""
    return rejected > REJECTS_ALWAYS_TAKEN and rejected > max_share * delivered


def rejects_told(rejected: int, delivered: int, max_share: float, violators: int = 0) -> str:
    """Says that too many records were rejected, `violators` of them by an expectation or an index."""
    by = f" ({violators} of them by an expectation or an index)" if violators else ""
    found = f"{rejected} of {delivered} records were rejected{by}"
    return f"{found}, more than max_reject_share {max_share:.0%}: is the schema right?"


def counted_once(lines: Sequence[ManifestLine], records: Mapping[int, int]) -> tuple[ManifestLine, ...]:
    """Adds each stream's records to its first line.

    A record counts as written once, whichever tasks staged its rows.
    """
    left = dict(records)
    return tuple(replace(line, written=line.written + left.pop(line.stream_id, 0)) for line in lines)


def suppressed(line: ManifestLine, rows: Sequence[int], records: int) -> ManifestLine:
    """Returns the line without rows that were dropped from staging, given by target.

    Subtracts `records` from those that it counts as written.
    """
    rows_of = tuple(count - gone for count, gone in zip(line.rows_of, rows, strict=True)) if line.rows_of else ()
    return replace(line, written=line.written - records, rows=line.rows - sum(rows), rows_of=rows_of)


def require_alike(
    batch_id: int,
    lines: Sequence[ManifestLine],
    tables: Sequence[str],
    found: Mapping[tuple[int, int], tuple[int, int]],
) -> None:
    """Refuses other rows in one table than in another, where each record gives one row to each of them.

    `found` has (rows, sum of their offsets) by the table's place and the stream, as store and database count them.
    """
    written: dict[int, int] = {stream: 0 for _, stream in found}
    for line in lines:
        written[line.stream_id] = written.get(line.stream_id, 0) + line.written
    for stream_id, records in sorted(written.items()):
        counts = [found.get((place, stream_id), (0, 0)) for place in range(len(tables))]
        if set(counts) != {(records, counts[0][1])}:
            told = ", ".join(f"{table} has {n} (sum {sum_})" for table, (n, sum_) in zip(tables, counts, strict=True))
            raise BadData(
                f"batch {batch_id}, stream {stream_id}: {records} records give one row to each table, and by number and sum of "
                f"offsets {told}",
                next_command=f"lockstep batch {batch_id}",
            )


def require_within(lines: Sequence[ManifestLine], ranges: Sequence[StreamRange]) -> None:
    """Refuses lines of tasks that read outside of the planned ranges."""
    planned = {item.stream_id: item.offsets for item in ranges}
    for line in lines:
        offsets = planned.get(line.stream_id)
        if offsets is None:
            raise BadData(f"task {line.task} read stream {line.stream_id}, which the batch has no range of")
        if line.first_offset is None or line.last_offset is None:
            continue
        if not offsets.from_offset <= line.first_offset <= line.last_offset < offsets.until_offset:
            raise BadData(f"{offsets}: task {line.task} read offsets {line.first_offset} to {line.last_offset}")
