"""Spark, per partition: whole ranges to each task, an end that a task can believe, and no shuffle in between."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.core.errors import BadData, BadDefinition
from lockstep.core.staging import RangeOutcome
from lockstep.staging.plans import shuffles
from lockstep.staging.stretches import END, LEFT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Row, SparkSession

    from lockstep.core.offsets import StreamRange


def groups(ranges: Sequence[StreamRange], number: int) -> list[tuple[StreamRange, ...]]:
    """At most so many groups of whole ranges, neighbours together and about as many offsets in each; none is empty."""
    whole = sum(item.offsets.span for item in ranges)
    made: dict[int, list[StreamRange]] = {}
    begun = 0
    for item in ranges:
        made.setdefault((2 * begun + item.offsets.span) * number // (2 * whole), []).append(
            item
        )  # where its middle lies
        begun += item.offsets.span
    return [tuple(group) for group in made.values()]


def with_end(rows: DataFrame) -> DataFrame:
    """The rows in one task, and behind them one that says that all of them were read and made."""
    fields = rows.schema.fields
    columns = [F.lit(END if f.name == "_stream" else None).cast(f.dataType).alias(f.name) for f in fields]
    return rows.union(rows.sparkSession.range(1, numPartitions=1).select(*columns)).coalesce(1)


def outcomes(frames: Sequence[DataFrame], tasks: int, pipeline: str) -> tuple[RangeOutcome, ...]:
    """What became of the ranges in so many tasks; raises `BadData` unless every task came to its end."""
    whole = reduce(DataFrame.union, frames)
    require_no_shuffle(whole, pipeline)
    return told(whole.collect(), tasks, pipeline)


def told(rows: Sequence[Row], tasks: int, pipeline: str) -> tuple[RangeOutcome, ...]:
    """What so many tasks say of their ranges; raises `BadData` unless each came to its end, or left the rest."""
    ended = {row.slot for row in rows if row.stream_id in (END, LEFT)}
    if len(ended) != tasks:
        raise BadData(f"{pipeline}: only {len(ended)} of {tasks} tasks came to the end of their ranges")
    return tuple(RangeOutcome(row.stream_id, row.what, row.reason) for row in rows if row.stream_id not in (END, LEFT))


def probe(session: SparkSession, schema: str) -> DataFrame:
    """Rows without end in two partitions, of values that no optimizer knows: what runs over them is planned as over records."""
    record = F.from_json(F.col("id").cast("string"), schema)
    return session.range(0, 2**60, 1, 2).select(record.alias("_record")).select("_record.*")


def require_no_shuffle(frame: DataFrame, pipeline: str) -> None:
    """Looks at the plan that Spark will run: a shuffle would hand a range's rows to other tasks than the one that read it."""
    if shuffles(frame):
        raise BadDefinition(
            f"{pipeline}: transform.py shuffles (a join, a grouping, a sort or a repartition), and guarantee PerPartition "
            "commits in the task that reads",
            next_command="make it work row by row (broadcast a small table that is joined), or take PerBatch",
        )
