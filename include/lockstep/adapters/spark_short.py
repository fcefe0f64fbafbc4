"""Spark, the short way: tasks read and decode their ranges themselves, and Spark is given only what they cannot decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.spark_session import session
from lockstep.adapters.spark_source import RAW
from lockstep.formats.json_columns import columnar
from lockstep.staging.short_way import FILE, ShortWay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from lockstep.core.folder import PipelineFolder
    from lockstep.core.offsets import StreamRange
    from lockstep.staging.short_way import Read


def shortened(
    parts: Sequence[Sequence[StreamRange]], folder: PipelineFolder, records: Read, *, says_end: bool = False
) -> DataFrame | None:
    """The raw records of ranges, each part read by a task; names of files stand for those that were decoded by columns.

    Where it `says_end` a row of `END` is each task's last. None where a pipeline's records cannot be decoded by columns.
    """
    if (decode := columnar(folder.pipeline)) is None:
        return None
    way = ShortWay(records, tuple(map(tuple, parts)), decode, keeps_bytes=folder.quarantines, says_end=says_end)
    number = len(parts)
    return session().range(0, number, 1, number).mapInArrow(way.left, f"{RAW}, {FILE} string")
