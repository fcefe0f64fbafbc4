"""Runs the short ways: tasks read and decode their ranges themselves, and Spark decodes only the rest."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lockstep.core.errors import Unreachable
from lockstep.core.planning.routes import is_judged
from lockstep.core.settings import STAGER_DSN
from lockstep.engine.short_way import LEFT_SCHEMA, ShortWay, with_deadline
from lockstep.engine.sinks.session import ways_to
from lockstep.engine.sinks.stretches import LEFT_OUT
from lockstep.engine.sinks.writer import Writer
from lockstep.engine.spark.jobs import jobs
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

MOST_PROBES = 16  # connections at once


def written(
    parts: Parts, folder: PipelineFolder, records: Read, writer: TaskWriter, registry: Registry | None = None
) -> tuple[tuple[Any, ...], Parts]:
    """Writes each part in one worker that reads and decodes it, too. Returns reports, and the parts that are left."""
    straight = Straight(records, tuple(parts), _decoded(folder, registry))
    found = _numbers(len(parts)).mapInArrow(partial(straight.write, writer), in_spark(writer.schema)).collect()
    numbers = {row[0] for row in found if row.stream_id == LEFT_OUT}
    left = [part for number, part in enumerate(parts) if number in numbers]
    return writer.reports([row.asDict() for row in found], len(parts), folder.pipeline.name), left


def require_way(writer: TaskWriter, where: str, *, is_their_own: bool) -> None:
    """Raises `Unreachable` in one line, before a read, if a task on an executor cannot log in to stage.

    Asks none on this machine with our own login, and none twice in an attempt.
    """
    if isinstance(writer, Writer) and (is_their_own or not is_local(session().conf.get("spark.master"))):
        _require_login(writer.dsn, where)


def is_local(master: str | None) -> bool:
    """Returns True for a master that runs tasks in the driver's own process tree."""
    return (master or "").startswith("local")


@lru_cache(maxsize=1)
def _require_login(dsn: str, where: str) -> None:
    tasks = min(jobs().slots(), MOST_PROBES)
    found = _numbers(tasks).mapInArrow(partial(ways_to, dsn), "why string").collect()
    if why := next((row.why for row in found if row.why), None):
        raise Unreachable(
            f"{where}: executors cannot stage as {why}",
            next_command=f"set {STAGER_DSN} to a login and an address that executors reach",
        )


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
    return with_deadline(decode, folder.pipeline.record_limits.seconds)


def _numbers(parts: int) -> DataFrame:
    """Returns a frame with one task for each part, holding its number."""
    return session().range(0, parts, 1, parts)
