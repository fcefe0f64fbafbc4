"""Runs jobs whose tasks read and decode their parts themselves, and give Spark their reports alone."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it
from pyspark.sql.types import BinaryType, StructField, StructType

from lockstep.core.errors import Unreachable
from lockstep.core.settings import STAGER_DSN
from lockstep.engine.part_reader import REPORT, unpacked
from lockstep.engine.sinks.session import ways_to
from lockstep.engine.sinks.writer import Writer
from lockstep.engine.spark.jobs import jobs
from lockstep.engine.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lockstep.engine.part_reader import PartReader
    from lockstep.engine.sinks.task_writer import TaskWriter

MOST_PROBES = 16  # connections at once
REPORTS = StructType([StructField(REPORT, BinaryType())])


def written(reader: PartReader, writer: TaskWriter, pipeline: str) -> tuple[Any, ...]:
    """Writes each part in one worker that reads and decodes it, too. Returns reports. Spark counts the records."""
    parts = len(reader.parts)
    answers = numbers(parts).mapInArrow(partial(reader.write, writer), REPORTS)
    found = answers.where(F.col(REPORT).isNotNull()).collect()
    return writer.reports([row for (report,) in found for row in unpacked(report)], parts, pipeline)


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
    found = numbers(tasks).mapInArrow(partial(ways_to, dsn), "why string").collect()
    if why := next((row.why for row in found if row.why), None):
        raise Unreachable(
            f"{where}: executors cannot stage as {why}",
            next_command=f"set {STAGER_DSN} to a login and an address that executors reach",
        )


def numbers(parts: int) -> DataFrame:
    """Returns a frame with one task for each part, holding its number."""
    return session().range(0, parts, 1, parts)
