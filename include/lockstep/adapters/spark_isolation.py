"""Spark, isolation: work whose reader dies is tried again, and then without the records that are proved to end it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.adapters.spark_rows import taken_in, typed, with_bytes
from lockstep.adapters.spark_session import session
from lockstep.core.errors import BadData, ReaderDied
from lockstep.core.isolation import MOST_FATAL, fatal_record, names_of
from lockstep.staging.trial import TASK, intake, swallowed

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from pyspark.sql import DataFrame

    from lockstep.core.folder import PipelineFolder
    from lockstep.core.staging import StageWork
    from lockstep.staging.transforms import Transforms

    Made = TypeVar("Made")


def isolating(
    work: StageWork, do: Callable[[StageWork], Made], dies: Callable[[StageWork], bool], newest_task: Callable[[], int]
) -> Made:
    """Does the work. After a reader's first death it is done again, the long way: the machine may have been at fault.

    After every other death the record that ends its reader is looked for, and hidden. Raises `ReaderDied` where no record
    is proved to, `BadData` when there are too many of them.
    """
    while True:
        try:
            return do(work)
        except ReaderDied as died:
            if work.after_task is not None:
                work = _hiding(work, died, dies)
        work = replace(work, after_task=newest_task())


def newest_task() -> int:
    """Returns a task's number that is above those of all tasks so far."""
    return max(_run(session().range(0, 1, 1, 1)))


def trial(records: DataFrame, folder: PipelineFolder, transforms: Transforms, work: StageWork) -> None:
    """Makes of decoded records what is made of them for the targets, and keeps nothing of it."""
    if folder.is_straight:
        _run(with_bytes(records, folder))
        return
    given = taken_in(records, folder, intake)
    for target, (_, columns) in zip(folder.pipeline.targets, work.tables, strict=True):
        _run(typed(transforms.applied(target, given, work.run), columns))


def _run(frame: DataFrame) -> list[int]:
    """Runs the frame to its end, and returns the numbers of its tasks."""
    return [row.task for row in frame.mapInArrow(swallowed, TASK).collect()]


def _hiding(work: StageWork, died: ReaderDied, dies: Callable[[StageWork], bool]) -> StageWork:
    one = fatal_record(work.ranges, work.hidden, lambda *them: dies(replace(work, ranges=them[0], hidden=them[1])))
    if one is None:
        raise ReaderDied(
            f"{died.message}; no record ends it when it is read alone",
            next_command=f"give tasks more memory, then lockstep run {work.pipeline}",
        ) from died
    hidden = (*work.hidden, one)
    if len(hidden) > MOST_FATAL:
        last = max(hidden).offsets
        raise BadData(
            f"{work.pipeline}: batch {work.batch_id}: more than {MOST_FATAL} records end their reader's process: "
            f"{names_of(hidden)}",
            next_command=f"lockstep skip {work.pipeline} --to {last.topic_partition.partition}:{last.until_offset} "
            "--reason ...",
        )
    return replace(work, hidden=hidden)
