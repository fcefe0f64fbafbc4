"""Plans commits per partition in Spark: whole ranges to each task, a certain end of each task, and no shuffle."""

from __future__ import annotations

import heapq
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

EVEN_ENOUGH = 1.2  # times its fair share, for the largest group of whole ranges. A piece costs a transaction.


def groups(ranges: Sequence[StreamRange], number: int) -> list[tuple[StreamRange, ...]]:
    """Deals whole ranges to at most `number` groups, the largest first, each to the group with the fewest offsets.

    No group is empty. The last streams are not all in one group.
    """
    # Of equal groups, the one that was dealt to last goes first. A key by stream and offset takes rows faster at its end,
    # so a group with all of the last streams would be done before the others.
    dealt: list[list[int]] = [[] for _ in range(min(number, len(ranges)))]
    waiting = [(0, 0, group) for group in range(len(dealt))]
    for turn, place in enumerate(sorted(range(len(ranges)), key=lambda place: -ranges[place].offsets.span)):
        offsets, _, group = heapq.heappop(waiting)
        dealt[group].append(place)
        heapq.heappush(waiting, (offsets + ranges[place].offsets.span, -turn, group))
    return [tuple(ranges[place] for place in sorted(group)) for group in dealt]


def even_parts(ranges: Sequence[StreamRange], number: int, *, may_cut: bool) -> list[tuple[StreamRange, ...]]:
    """Returns groups of whole ranges, or cuts ranges evenly where whole ones would keep a task for clearly longer.

    No share has two pieces of one range, and together they are the ranges.
    """
    whole, dealt = _offsets(ranges), groups(ranges, number)
    if not may_cut or (len(dealt) == number and max(map(_offsets, dealt)) * number <= whole * EVEN_ENOUGH):
        return dealt
    made = [_between(ranges, whole * n // number, whole * (n + 1) // number) for n in range(number)]
    return [share for share in made if share]


def _offsets(ranges: Sequence[StreamRange]) -> int:
    return sum(item.offsets.span for item in ranges)


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
