"""Plans commits per partition in Spark: whole ranges to each task, a certain end of each task, and no shuffle."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.core.errors import BadDefinition
from lockstep.engine.plans import shuffles
from lockstep.engine.sinks.stretches import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from lockstep.core.offsets import StreamRange


def groups(ranges: Sequence[StreamRange], number: int) -> list[tuple[StreamRange, ...]]:
    """Groups neighbouring whole ranges, with about as many offsets in each group. Returns at most `number` groups.

    No group is empty.
    """
    whole = sum(item.offsets.span for item in ranges)
    made: dict[int, list[StreamRange]] = {}
    begun = 0
    for item in ranges:
        made.setdefault((2 * begun + item.offsets.span) * number // (2 * whole), []).append(
            item
        )  # where its middle lies
        begun += item.offsets.span
    return [tuple(group) for group in made.values()]


def even_parts(ranges: Sequence[StreamRange], number: int) -> list[tuple[StreamRange, ...]]:
    """Returns groups of whole ranges, or cuts them evenly if there are fewer ranges than `number`.

    No share has two pieces of one range, and together they are the ranges.
    """
    if len(ranges) >= number:
        return groups(ranges, number)
    whole = sum(item.offsets.span for item in ranges)
    made = [_between(ranges, whole * n // number, whole * (n + 1) // number) for n in range(number)]
    return [share for share in made if share]


def _between(ranges: Sequence[StreamRange], begin: int, end: int) -> tuple[StreamRange, ...]:
    """Returns the offsets from `begin` to `end`, counted over all ranges."""
    found = []
    for item in ranges:
        first = item.offsets.from_offset
        low, high = first + max(begin, 0), min(first + end, item.offsets.until_offset)
        if low < high:
            found.append(replace(item, offsets=replace(item.offsets, from_offset=low, until_offset=high)))
        begin, end = begin - item.offsets.span, end - item.offsets.span
    return tuple(found)


def with_end(rows: DataFrame) -> DataFrame:
    """Returns the rows in one task, followed by a row that says that all of them were read and made."""
    fields = rows.schema.fields
    columns = [F.lit(END if f.name == "_stream" else None).cast(f.dataType).alias(f.name) for f in fields]
    return rows.union(rows.sparkSession.range(1, numPartitions=1).select(*columns)).coalesce(1)


def collected(frames: Sequence[DataFrame], pipeline: str) -> list[dict[str, Any]]:
    """Collects the rows of all tasks. Raises `BadDefinition` if Spark's plan shuffles."""
    whole = reduce(DataFrame.union, frames)
    require_no_shuffle(whole, pipeline)
    return [row.asDict() for row in whole.collect()]


def probe(session: SparkSession, schema: str) -> DataFrame:
    """Returns endless rows in two partitions, with values unknown to the optimizer. Spark plans them like records."""
    record = F.from_json(F.col("id").cast("string"), schema)
    return session.range(0, 2**60, 1, 2).select(record.alias("_record")).select("_record.*")


def require_no_shuffle(frame: DataFrame, pipeline: str) -> None:
    """Raises `BadDefinition` if Spark's plan shuffles: rows would leave the task that read their range."""
    if shuffles(frame):
        raise BadDefinition(
            f"{pipeline}: transform.py shuffles (a join, a grouping, a sort or a repartition), and guarantee PerPartition "
            "commits in the task that reads",
            next_command="make it work row by row (broadcast a small table that is joined), or take PerBatch",
        )
