"""Runs the short ways: tasks read and decode their ranges themselves, and Spark decodes only the rest."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockstep.adapters.spark_ranges import told
from lockstep.adapters.spark_session import session
from lockstep.adapters.spark_source import RAW
from lockstep.formats.json_columns import straight_columns
from lockstep.staging.range_writer import SPARK_OUTCOMES
from lockstep.staging.short_way import FILE, ShortWay
from lockstep.staging.straight import Straight
from lockstep.staging.stretches import LEFT
from lockstep.staging.tally import SPARK_LINES, manifest_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from lockstep.core.accounting import ManifestLine
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.offsets import StreamRange
    from lockstep.core.staging import RangeOutcome
    from lockstep.staging.range_writer import RangeWriter
    from lockstep.staging.short_way import Read
    from lockstep.staging.writer import Writer

    Parts = Sequence[tuple[StreamRange, ...]]


def staged(
    parts: Parts, folder: PipelineFolder, records: Read, writer: Writer
) -> tuple[tuple[ManifestLine, ...], Parts]:
    """Stages each part in one worker that reads and decodes it, too. Returns lines, and the parts that are left."""
    if (straight := _straight(parts, folder, records)) is None:
        return (), parts
    rows = _numbers(len(parts)).mapInArrow(partial(straight.stage, writer), SPARK_LINES).collect()
    lines = tuple(manifest_line(row.asDict()) for row in rows if row.stream_id != LEFT)
    return lines, _left(parts, {row.task for row in rows if row.stream_id == LEFT})


def committed(
    parts: Parts, folder: PipelineFolder, records: Read, writer: RangeWriter
) -> tuple[tuple[RangeOutcome, ...], Parts]:
    """Commits the ranges of each part in one worker that reads and decodes them, too.

    Returns outcomes, and the parts with ranges that are left.
    """
    if (straight := _straight(parts, folder, records)) is None:
        return (), parts
    rows = _numbers(len(parts)).mapInArrow(partial(straight.commit, writer), SPARK_OUTCOMES).collect()
    left = _left(parts, {row.slot for row in rows if row.stream_id == LEFT})
    return told(rows, len(parts), folder.pipeline.name), left


def shortened(parts: Parts, folder: PipelineFolder, records: Read, *, says_end: bool = False) -> DataFrame | None:
    """Returns the raw records of ranges, each part read by a task. File names replace records decoded by columns.

    With `says_end`, each task's last row is `END`. Returns None if only the long way is possible.
    """
    if (decode := straight_columns(folder)) is None:
        return None
    way = ShortWay(records, tuple(map(tuple, parts)), decode, keeps_bytes=folder.quarantines, says_end=says_end)
    return _numbers(len(parts)).mapInArrow(way.left, f"{RAW}, {FILE} string")


def _straight(parts: Parts, folder: PipelineFolder, records: Read) -> Straight | None:
    if (decode := straight_columns(folder)) is None:
        return None
    return Straight(records, tuple(parts), decode, keeps_bytes=folder.quarantines)


def _left(parts: Parts, numbers: set[int]) -> Parts:
    return [part for number, part in enumerate(parts) if number in numbers]


def _numbers(parts: int) -> DataFrame:
    """Returns a frame with one task for each part, holding its number."""
    return session().range(0, parts, 1, parts)
