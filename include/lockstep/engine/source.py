"""Reads the manifest of a transform's source from its reading tasks, and reconciles it in the driver."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lockstep.core.errors import BadData
from lockstep.core.proof.accounting import Digest, ManifestLine
from lockstep.engine.sinks.session import staging_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from lockstep.core.staging import StageWork

SOURCE_LINES_QUERY = """
select slot, task, stream_id, delivered, written, rejected, bytes, digest_sum::text, digest_squares::text,
    first_offset, last_offset, min_timestamp, max_timestamp
from lockstep.source_manifest where batch_id = %s and token = %s order by stream_id, task
"""


class SourceLine(NamedTuple):
    """A row of `SOURCE_LINES_QUERY`: what a task of the source has read of one stream. Digests are text, of any size."""

    slot: int
    task: int
    stream_id: int
    delivered: int
    written: int
    rejected: int
    bytes: int
    digest_sum: str
    digest_squares: str
    first_offset: int | None
    last_offset: int | None
    min_timestamp: datetime | None
    max_timestamp: datetime | None


def source_lines(dsn: str, work: StageWork, slots: int, deleting: Sequence[int] = (1,)) -> list[ManifestLine]:
    """Returns the manifest lines of this attempt's tasks, including tries that lost, but none up to `after_task`.

    `deleting` is, for each target, the number of its rows that a tombstone makes. Raises `BadData` unless each of the
    `slots` source tasks came to the end of its input.
    """
    with staging_session(dsn) as cur:
        cur.execute(SOURCE_LINES_QUERY, (work.batch_id, work.token))
        # An intake goes by a number below zero: the newer, the lower.
        rows = [SourceLine._make(row) for row in cur.fetchall()]
    rows = [row for row in rows if work.after_task is None or row.task < -1 - work.after_task]
    ended = {row.slot for row in rows}
    if len(ended) != slots:
        raise BadData(
            f"only {len(ended)} of {slots} tasks read their ranges to the end: a transform must not use limit"
        )
    return [
        ManifestLine(
            task=row.task,
            stream_id=row.stream_id,
            delivered=row.delivered,
            written=row.written,
            rejected=row.rejected,
            rows=row.written * sum(deleting),
            bytes=row.bytes,
            digest=Digest(row.delivered, int(row.digest_sum), int(row.digest_squares)),
            first_offset=row.first_offset,
            last_offset=row.last_offset,
            min_timestamp=row.min_timestamp,
            max_timestamp=row.max_timestamp,
            rows_of=tuple(row.written * deletes for deletes in deleting) if len(deleting) > 1 else (),
        )
        for row in rows
        if row.delivered
    ]


def kept_lines(source: Iterable[ManifestLine], outlet: Iterable[ManifestLine]) -> tuple[ManifestLine, ...]:
    """Returns one source line per stream, and every winner's outlet lines, added up by task and stream.

    `written` stays open except for tombstones: a record's rows may be in several tasks, and each counts its own. Raises
    `BadData` if two tasks read one stream and found different records.
    """
    chosen: dict[int, ManifestLine] = {}
    for line in source:
        other = chosen.setdefault(line.stream_id, line)
        if (other.delivered, other.rejected, other.digest) != (line.delivered, line.rejected, line.digest):
            raise BadData(
                f"stream {line.stream_id}: tasks {other.task} and {line.task} read different records of one range"
            )
    staged: dict[tuple[int, int], ManifestLine] = {}
    for line in outlet:
        if line.stream_id not in chosen:
            raise BadData(
                f"stream {line.stream_id}: rows were staged, but its source was never read to the end (a limit?)"
            )
        other = staged.get((line.task, line.stream_id), replace(line, rows=0, rows_of=()))
        rows_of = tuple(map(sum, zip(line.rows_of, other.rows_of or (0,) * len(line.rows_of), strict=True)))
        staged[line.task, line.stream_id] = replace(line, written=0, rows=line.rows + other.rows, rows_of=rows_of)
    return (*chosen.values(), *staged.values())
