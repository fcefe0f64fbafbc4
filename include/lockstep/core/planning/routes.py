"""Decides the way of a batch's records to their rows, from the definition and the size, and gives the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from lockstep.core.capture.debezium import Debezium
from lockstep.core.formats.registered import Protobuf
from lockstep.core.pipeline.columns import MAX_PRECISION, digits
from lockstep.core.pipeline.definition import BY_SPARK, Avro, Json
from lockstep.core.pipeline.guarantees import commit_unit
from lockstep.core.states import CommitUnit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.retention.archive import ArchivedFile

# For a batch with more of them, Spark's parallel tasks are faster than one process.
MAX_OFFSETS_IN_PROCESS = 20_000
MAX_COMMITS_IN_PROCESS = 64  # ranges that are committed one by one
# Types whose values Arrow's parser and Spark's read alike, or differ in a way that can be detected.
ALIKE = frozenset({"string", "boolean", "smallint", "int", "bigint", "float", "double", "date", "timestamp"})
# Options of a format that look at more than values by columns.
RECORD_BY_RECORD = {
    "registry": "looks up the schema of each record",
    "strict": "looks at each record's field names",
    "rest": "gathers other fields record by record",
}
ENVELOPE = "the envelope's columns come from each record's key, time and headers"


class Way(StrEnum):
    """The ways of a batch's records."""

    PROCESS = "process"  # this process reads and decodes by columns
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

    `left` says that this process has met a record that it cannot decode by columns. `died` says that a record has killed
    its reader.
    """
    has_died = "a reader of this batch has died, and Spark's source finds the record" if died else None
    if reason := needs_spark(folder) or has_died:
        return Route(Way.SPARK, reason)
    if left:
        return Route(Way.TASKS, "a record of this run does not decode by columns, and Spark's decoder judges it")
    offsets = sum(item.offsets.span for item in ranges)
    if is_judged(folder.pipeline):  # a record that ends its reader ends a task's, and not this process
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
    """Returns why the definition needs Spark for every record, or None if columns may go straight to the target."""
    pipeline = folder.pipeline
    if pipeline.read == BY_SPARK:
        return 'the definition asks for it: read="spark"'
    if folder.transforms:
        return "a transform makes the rows"
    if len(pipeline.targets) > 1 and not folder.fans_out:
        return f"{len(pipeline.targets)} targets take the rows of one read"
    if is_judged(pipeline):
        return None if pipeline.envelope is None else ENVELOPE
    return not_by_columns(pipeline)


def is_judged(pipeline: Pipeline) -> bool:
    """Returns True for a format that Python decodes record by record, also where it takes plain ones by columns."""
    return isinstance(pipeline.format, Debezium | Protobuf)


def not_by_columns(pipeline: Pipeline) -> str | None:
    """Returns why the pipeline's records do not decode by columns, or None if they do."""
    format_ = pipeline.format
    if not isinstance(format_, Json | Avro):
        return f"the format is {type(format_).__name__}, and only Json and Avro decode by columns"
    for option, what in RECORD_BY_RECORD.items():
        if getattr(format_, option, None):
            return f"format.{option} {what}"
    if pipeline.envelope is not None:
        return ENVELOPE
    if isinstance(format_, Avro):  # one reader of bytes for each type of a schema: no column is in doubt
        return None
    if odd := next((column for column in format_.columns if not read_alike(column)), None):
        return f"column {odd.name} is {odd.type}, which two parsers do not read alike"
    return None


def read_alike(column: Column) -> bool:
    """Returns True if values of this column's type are read alike, or if differences can be detected."""
    if column.type.startswith("decimal"):
        return sum(digits(column.type)) <= MAX_PRECISION  # beyond it, Arrow may shift digits out without a word
    return column.type in ALIKE
