"""Reads records from the log once, although their targets or one transform use them several times."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.core.errors import BadData
from lockstep.engine.plans import cuts
from lockstep.engine.sinks.tally import SOURCE_LINE_SCHEMA, lines_of
from lockstep.engine.source import kept_lines
from lockstep.engine.spark.rows import in_spark, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.core.staging import StageWork
    from lockstep.engine.sinks.writer import Writer


def read_once(
    accepted: DataFrame,
    outs: Sequence[DataFrame],
    writer: Writer,
    work: StageWork,
    source: Callable[[Sequence[int]], list[ManifestLine]],
    deleting: Sequence[int],
) -> tuple[ManifestLine, ...]:
    """Stages the rows of all targets from records that are kept between their uses.

    Reads the records from the log before any use of them, so that no use reads the log again. `source` returns the lines of
    the tasks that read them.
    """
    if what := next(filter(None, map(cuts, outs)), None):
        raise BadData(
            f"{work.pipeline}: a transform must not use {what}: the records that it leaves are like lost ones",
            next_command=f"lockstep check {work.pipeline}",
        )
    accepted.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        accepted.write.format("noop").mode("overwrite").save()
        read = source(deleting)
        outlets = [_outlet(out, writer, work, place) for place, out in enumerate(outs)]
        return kept_lines(read, lines_of(reduce(DataFrame.unionAll, outlets), len(outs)))
    finally:
        accepted.unpersist()


def _outlet(out: DataFrame, writer: Writer, work: StageWork, place: int) -> DataFrame:
    """Returns the lines of the tasks that stage one target's rows, each with the target's place."""
    table, columns = work.tables[place]
    lines = typed(out, columns).mapInArrow(replace(writer, table=table).outlet, in_spark(SOURCE_LINE_SCHEMA))
    return lines.withColumn("place", F.lit(place))
