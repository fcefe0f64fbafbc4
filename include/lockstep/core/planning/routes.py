"""Decides the way of a batch's records to their rows, from the definition and the size, and gives the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from lockstep.core.capture.debezium import Debezium
from lockstep.core.formats.registered import Protobuf
from lockstep.core.pipeline.definition import BY_SPARK
from lockstep.core.pipeline.formats import Custom
from lockstep.core.pipeline.guarantees import commit_unit
from lockstep.core.states import CommitUnit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.retention.archive import ArchivedFile

# For a batch with more of them, Spark's parallel tasks are faster than one process.
MAX_OFFSETS_IN_PROCESS = 20_000
MAX_COMMITS_IN_PROCESS = 64  # ranges that are committed one by one


class Way(StrEnum):
    """The ways of a batch's records."""

    PROCESS = "process"  # this process reads and decodes
    TASKS = (
        "tasks"  # tasks of Spark do the same, or judge each record in Python; they leave the others to Spark's decoder
    )
    SPARK = "spark"  # Spark's source reads, and Spark or its Python decodes


@dataclass(frozen=True, slots=True)
class Route:
    """The way of one batch, with the reason."""

    way: Way
    because: str

    def begun_in(self, archived: Sequence[ArchivedFile]) -> Route:
        """Returns the same way. The reason says so if the batch begins in archived files, which the same readers read."""
        return replace(self, because=f"{self.because}; it begins below log start, in the archive") if archived else self

    def also(self, because: str) -> Route:
        """Returns the same way, with one reason more if there is one."""
        return replace(self, because=f"{self.because}; {because}") if because else self

    def document(self) -> dict[str, str]:
        """Returns the route as JSON."""
        return {"way": self.way, "because": self.because}


def route(
    folder: PipelineFolder,
    ranges: Sequence[StreamRange],
    max_offsets: int = MAX_OFFSETS_IN_PROCESS,
    *,
    left: bool = False,
    died: bool = False,
) -> Route:
    """Returns the way of a batch with these ranges.

    `left` says that this process has met a record that it cannot read, or that kept its decoder busy. `died` says that a
    record has killed its reader.
    """
    has_died = "a reader of this batch has died, and Spark's source finds the record" if died else None
    if reason := needs_spark(folder) or has_died:
        return Route(Way.SPARK, reason)
    if left:
        return Route(Way.TASKS, "a record of this run cannot be read or decoded by this process")
    offsets = sum(item.offsets.span for item in ranges)
    if is_for_tasks(folder.pipeline):  # a record that ends its reader ends a task's, and not this process
        return Route(Way.TASKS, f"tasks read, decode and stage {type(folder.pipeline.format).__name__} in one pass")
    if offsets > max_offsets:
        return Route(Way.TASKS, f"{offsets:,} offsets, more than the {max_offsets:,} that one process reads")
    commits = len(ranges) if commit_unit(folder.pipeline.guarantee) == CommitUnit.STREAM else 0
    if commits > MAX_COMMITS_IN_PROCESS:
        return Route(Way.TASKS, f"{commits} ranges that commit one by one, more than {MAX_COMMITS_IN_PROCESS}")
    return Route(Way.PROCESS, f"{offsets:,} offsets, no more than the {max_offsets:,} that one process reads")


def usual_route(folder: PipelineFolder) -> Route:
    """Returns the way of small batches, as far as the definition alone decides it."""
    small = route(folder, [])
    if small.way is not Way.PROCESS:
        return small
    reason = f"batches of up to {MAX_OFFSETS_IN_PROCESS:,} offsets; Spark's tasks read larger ones"
    return Route(small.way, reason)


def needs_spark(folder: PipelineFolder) -> str | None:
    """Returns why Spark's source must read every record, or None if tasks or this process may read them."""
    pipeline = folder.pipeline
    if pipeline.read == BY_SPARK:
        return 'the definition asks for it: read="spark"'
    if folder.transforms:
        return "a transform makes the rows"
    if len(pipeline.targets) > 1 and not folder.fans_out:
        return f"{len(pipeline.targets)} targets take the rows of one read"
    return None


def is_for_tasks(pipeline: Pipeline) -> bool:
    """Returns True for a format that only tasks decode. A record that ends its reader then ends a task's process."""
    return isinstance(pipeline.format, Debezium | Protobuf | Custom)
