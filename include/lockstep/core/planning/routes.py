"""Decides which engine reads a batch, Spark or this process, and gives the reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from lockstep.core.capture.debezium import Debezium
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.formats.registered import Protobuf
from lockstep.core.pipeline.formats import Custom
from lockstep.core.settings import ENGINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.retention.archive import ArchivedFile

DEFAULT, PYSPARK_MISSING = "the default", "PySpark is not installed"
INSTALL_SPARK = "pip install 'lockstep-kafka[spark]'"


class Way(StrEnum):
    """The engines of a batch. Both read, decode and write by the same functions."""

    SPARK = "spark"  # in its tasks
    PROCESS = "process"  # in this process


@dataclass(frozen=True, slots=True)
class Route:
    """The engine that was chosen for a pipeline, or that reads one batch, with the reason."""

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


def choose_engine(folder: PipelineFolder, *, wanted: str | None, environment: str, has_spark: bool) -> Route:
    """Returns the engine of a pipeline: the command's, or else the definition's, the environment's, Spark.

    Without PySpark it is this process. Raises `Refusal` for an engine that does not exist, is not installed, or cannot
    make the pipeline's rows.
    """
    name, where = next(
        (value, where)
        for value, where in (
            (wanted, "--engine"),
            (folder.pipeline.engine, "the definition's engine"),
            (environment, ENGINE),
            (Way.SPARK, DEFAULT) if has_spark else (Way.PROCESS, PYSPARK_MISSING),
        )
        if value
    )
    if name not in list(Way):
        raise Refusal(
            f"{where} is {name!r}: it must be {' or '.join(Way)}", next_command=f"unset it, or set {Way.SPARK}"
        )
    way, why = Way(name), needs_spark(folder)
    if not has_spark and (way is Way.SPARK or why):
        reason = why or f"{where} is {name}"
        raise Refusal(f"{folder.pipeline.name}: {reason}, and {PYSPARK_MISSING}", next_command=INSTALL_SPARK)
    if way is Way.PROCESS and why and where != ENGINE:
        raise BadDefinition(
            f"{folder.pipeline.name}: {where} is {name}, and {why}: only Spark can do that",
            next_command=f"take {where} away, or set it to {Way.SPARK}",
        )
    return Route(way, where if where in {DEFAULT, PYSPARK_MISSING} else f"{where} is {name}")


def route(folder: PipelineFolder, choice: Route, *, left: bool = False) -> Route:
    """Returns the way of a batch. `left` says that a record has kept the decoder of this process busy.

    Spark makes the rows that it alone can make, whatever was chosen.
    """
    why = needs_spark(folder)
    if choice.way is Way.PROCESS and not why and not left:
        return choice.also("this process reads, decodes and writes")
    because = "a record keeps the decoder of this process busy" if left else choice.because
    return Route(Way.SPARK, because).also(why or "tasks read, decode and write in one pass")


def needs_spark(folder: PipelineFolder) -> str | None:
    """Returns why Spark must make the rows, or None if a process without it can."""
    if folder.transforms:
        return "a transform makes the rows"
    if len(folder.pipeline.targets) > 1 and not folder.fans_out:
        return f"{len(folder.pipeline.targets)} targets take the rows of one read"
    return None


def may_end_its_reader(pipeline: Pipeline) -> str | None:
    """Returns the reason to keep ranges whole: the format's records may end their reader. Returns None for other formats."""
    kind = pipeline.format
    return (
        f"a record of {type(kind).__name__} may end its reader"
        if isinstance(kind, Debezium | Protobuf | Custom)
        else None
    )
