"""Reads the manifest of a transform's source from its reading tasks, and reconciles it in the driver."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.core.accounting import Digest, ManifestLine
from lockstep.core.errors import BadData
from lockstep.staging.session import staging_session

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockstep.core.staging import StageWork

LINES = """
select slot, task, stream_id, delivered, written, rejected, bytes, digest_sum::text, digest_squares::text,
    first_offset, last_offset, min_timestamp, max_timestamp
from lockstep.source_manifest where batch_id = %s and token = %s order by stream_id, task
"""


def source_lines(dsn: str, work: StageWork, slots: int, deleting: Sequence[int] = (1,)) -> list[ManifestLine]:
    """Returns the manifest lines of this attempt's tasks, including tries that lost, but none up to `after_task`.

    `deleting` is, for each target, the number of its rows that a tombstone makes. Raises `BadData` unless each of the
    `slots` source tasks came to the end of its input.
    """
    with staging_session(dsn) as cur:
        cur.execute(LINES, (work.batch_id, work.token))
        # An intake goes by a number below zero: the newer, the lower.
        rows = [row for row in cur.fetchall() if work.after_task is None or row[1] < -1 - work.after_task]
    ended = {row[0] for row in rows}
    if len(ended) != slots:
        raise BadData(
            f"only {len(ended)} of {slots} tasks read their ranges to the end: a transform must not use limit"
        )
    return [
        ManifestLine(
            task=row[1],
            stream_id=row[2],
            delivered=row[3],
            written=row[4],
            rejected=row[5],
            rows=row[4] * sum(deleting),
            bytes=row[6],
            digest=Digest(row[3], int(row[7]), int(row[8])),
            first_offset=row[9],
            last_offset=row[10],
            min_timestamp=row[11],
            max_timestamp=row[12],
            rows_of=tuple(row[4] * deletes for deletes in deleting) if len(deleting) > 1 else (),
        )
        for row in rows
        if row[3]
    ]


def kept(source: Iterable[ManifestLine], outlet: Iterable[ManifestLine]) -> tuple[ManifestLine, ...]:
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
