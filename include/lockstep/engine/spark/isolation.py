"""Repeats work whose reader dies, then without the records that are proved to kill it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lockstep.core.errors import BadData, ReaderDied
from lockstep.core.isolation import MOST_FATAL, fatal_record, names_of, trial_seconds
from lockstep.engine.spark.part_jobs import numbers
from lockstep.engine.spark.rows import typed
from lockstep.engine.spark.source import frame_given
from lockstep.engine.trial import TASK, intake, swallow_parts, swallowed

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from pyspark.sql import DataFrame

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import StageWork
    from lockstep.engine.part_reader import PartReader
    from lockstep.engine.transforms import Transforms

    Made = TypeVar("Made")


def isolating(
    work: StageWork,
    do: Callable[[StageWork], Made],
    death: Callable[[StageWork], ReaderDied | None],
    newest_task: Callable[[], int],
) -> Made:
    """Does the work, and repeats it when a reader dies.

    After the first death it does the same once more, because the machine may have been at fault. After every other death
    it finds the record that kills its reader, and hides it. `death` tries a part of the work. Raises `ReaderDied` if no
    record is proved to do so, and `BadData` if there are too many of them.
    """
    while True:
        try:
            return do(work)
        except ReaderDied as died:
            if work.after_task is not None:
                work = _hiding(work, died, death)
        work = replace(work, after_task=newest_task())


def newest_task() -> int:
    """Returns the number of a new task, which is higher than those of all tasks so far."""
    return max(_run(numbers(1)))


def trial(reader: PartReader, folder: PipelineFolder, transforms: Transforms, work: StageWork) -> None:
    """Reads and processes records as for the targets, and drops the results."""
    if folder.decodes_to_rows:
        numbers(len(reader.parts)).mapInArrow(partial(swallow_parts, reader), TASK).collect()
        return
    given = frame_given(reader, folder, transforms, intake)
    for target, (_, columns) in zip(folder.pipeline.targets, work.tables, strict=True):
        _run(typed(transforms.applied(target, given, work.run), columns))


def in_trial(folder: PipelineFolder, work: StageWork) -> PipelineFolder:
    """Returns the folder with the deadline of a trial of this work."""
    limits = folder.pipeline.record_limits
    limits = replace(limits, seconds=trial_seconds(work.ranges, limits.seconds))
    return replace(folder, pipeline=replace(folder.pipeline, record_limits=limits))


def _run(frame: DataFrame) -> list[int]:
    """Runs the frame to its end. Returns the numbers of its tasks."""
    return [row.task for row in frame.mapInArrow(swallowed, TASK).collect()]


def _hiding(work: StageWork, died: ReaderDied, death: Callable[[StageWork], ReaderDied | None]) -> StageWork:
    deaths = [died]

    def dies(ranges: tuple[StreamRange, ...], hidden: tuple[StreamRange, ...]) -> bool:
        found = death(replace(work, ranges=ranges, hidden=hidden))
        deaths.extend([found] if found else [])
        return found is not None

    one = fatal_record(work.ranges, work.hidden, dies)
    if one is None:
        busy = f"raise record_limits.seconds of {work.pipeline}, or {died.next_command}"
        raise ReaderDied(
            f"{died.message}; no record ends it when it is read alone",
            next_command=busy if died.is_busy else f"give tasks more memory, then lockstep run {work.pipeline}",
            is_busy=died.is_busy,
        ) from died
    hidden = (*work.hidden, one)
    if len(hidden) > MOST_FATAL:
        last = max(hidden).offsets
        raise BadData(
            f"{work.pipeline}: batch {work.batch_id}: more than {MOST_FATAL} records end their reader's process "
            f"or keep it busy: {names_of(hidden)}",
            next_command=f"lockstep skip {work.pipeline} --to {last.topic_partition.partition}:{last.until_offset} "
            "--reason ...",
        )
    return replace(work, hidden=hidden, busy=(*work.busy, one) if deaths[-1].is_busy else work.busy)
