"""Runs the short ways: tasks read and decode their ranges themselves, and Spark decodes only the rest."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lockstep.core.planning.routes import is_judged
from lockstep.engine.short_way import LEFT_SCHEMA, ShortWay
from lockstep.engine.sinks.stretches import LEFT_OUT
from lockstep.engine.spark.rows import in_spark
from lockstep.engine.spark.session import session
from lockstep.engine.straight import Straight, decode_directly
from lockstep.formats import decoder_by_columns, decoder_in_python

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.registry import Registry
    from lockstep.engine.short_way import Read
    from lockstep.engine.sinks.task_writer import TaskWriter
    from lockstep.engine.straight import Decoded
    from lockstep.formats import Decode

    Parts = Sequence[tuple[StreamRange, ...]]


def written(
    parts: Parts, folder: PipelineFolder, records: Read, writer: TaskWriter, registry: Registry | None = None
) -> tuple[tuple[Any, ...], Parts]:
    """Writes each part in one worker that reads and decodes it, too. Returns reports, and the parts that are left."""
    straight = Straight(records, tuple(parts), _decoded(folder, registry))
    found = _numbers(len(parts)).mapInArrow(partial(straight.write, writer), in_spark(writer.schema)).collect()
    numbers = {row[0] for row in found if row.stream_id == LEFT_OUT}
    left = [part for number, part in enumerate(parts) if number in numbers]
    return writer.reports([row.asDict() for row in found], len(parts), folder.pipeline.name), left


def shortened(
    parts: Parts, folder: PipelineFolder, records: Read, *, says_end: bool = False, registry: Registry | None = None
) -> DataFrame:
    """Returns the raw records of ranges, each part read by a task. File names replace records decoded by columns.

    With `says_end`, each task's last row is `END`.
    """
    decode = _nothing if is_judged(folder.pipeline) else _decode(folder, registry)
    mine = tuple(map(tuple, parts))
    way = ShortWay(records, mine, decode, keeps_bytes=folder.quarantines, says_end=says_end)
    return _numbers(len(parts)).mapInArrow(way.left, in_spark(LEFT_SCHEMA))


def _decoded(folder: PipelineFolder, registry: Registry | None) -> Decoded:
    """Returns the function that decodes a task's records."""
    if is_judged(folder.pipeline):
        return decoder_in_python(folder.pipeline, registry, keeps_bytes=folder.quarantines)
    return partial(decode_directly, decode=_decode(folder, registry), keeps_bytes=folder.quarantines)


def _nothing(_values: pa.Array) -> tuple[np.ndarray, pa.RecordBatch]:
    """Leaves all values to Spark."""
    return np.array([], np.int64), pa.RecordBatch.from_pylist([], schema=pa.schema([]))


def _decode(folder: PipelineFolder, registry: Registry | None) -> Decode:
    """Returns the decoder by columns. The route leads here only where there is one."""
    if (decode := decoder_by_columns(folder.pipeline, registry)) is None:
        raise TypeError(f"{folder.pipeline.name}: its records do not decode by columns")
    return decode


def _numbers(parts: int) -> DataFrame:
    """Returns a frame with one task for each part, holding its number."""
    return session().range(0, parts, 1, parts)
