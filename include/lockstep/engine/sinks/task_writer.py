"""Makes the part of a sink that runs in a task, staging tables or a range's own commit."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from lockstep.adapters.connection.dsn import staging_dsn
from lockstep.core.engine import RangeTask
from lockstep.core.errors import Refusal
from lockstep.core.settings import STAGER_DSN
from lockstep.engine.sinks.range_writer import RangeWriter
from lockstep.engine.sinks.writer import Writer

if TYPE_CHECKING:
    from lockstep.core.engine import Sink
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import StageWork

# They have the same methods, and `LakeWriter` is a `Writer`. The first column of a report is the task's number, `stream_id`
# says what it is about.
TaskWriter = Writer | RangeWriter


def writer_of(
    sink: Sink[Any], work: StageWork, folder: PipelineFolder, dsn: str, stager_dsn: str | None = None
) -> TaskWriter:
    """Returns the writer of this work's rows. Executors get it by value, and with it the one login that it needs.

    Raises `Refusal` for ranges that tasks commit by themselves, if executors have a login that stages alone.
    """
    names = tuple(column.name for column in work.columns)
    if isinstance(sink, RangeTask):
        if stager_dsn:
            raise Refusal(
                f"{work.pipeline}: its tasks on executors would commit their ranges, and the login of {STAGER_DSN} stages "
                "alone",
                next_command=f"unset {STAGER_DSN} for {work.pipeline}, or give it guarantee=PerBatch()",
            )
        return RangeWriter(sink, secrets.token_hex(8), work.from_offsets, names)
    tables = [(table, tuple(column.name for column in columns)) for table, columns in work.tables]
    staging = (
        staging_dsn(stager_dsn or dsn, work.stager),
        work.table,
        work.batch_id,
        work.token,
        work.from_offsets,
        names,
        tuple(each for each, deletes in zip(tables, deleting(folder.pipeline), strict=True) if deletes),
        work.raw_table if folder.quarantines and not folder.is_straight else None,
    )
    if not work.lakes:
        return Writer(*staging, tuple(name for name, _ in tables) if folder.fans_out else None, len(tables))
    from lockstep.engine.sinks.lake_writer import LakeWriter  # noqa: PLC0415 - few pipelines have a lake table

    in_files = {lake.place for lake in work.lakes}
    staged = tuple(name for place, (name, _) in enumerate(tables) if place not in in_files)
    return LakeWriter(*staging, staged, len(tables), work.lakes)


def deleting(pipeline: Pipeline) -> tuple[int, ...]:
    """Returns, for each target, the number of rows of a tombstone: 1 or 0."""
    return tuple(int(target in pipeline.tombstone_targets) for target in pipeline.targets)
