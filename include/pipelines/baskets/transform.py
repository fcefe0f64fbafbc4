"""Makes a basket's head and its lines: one function for each target, over the same records, read from Kafka once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lockstep import Run

LINES = "array<struct<sku: string, quantity: int, price: decimal(10,2)>>"


def heads(records: DataFrame, run: Run) -> DataFrame:
    """Returns one row for a basket. `run.planned_at` is the batch's own time, the same at every attempt."""
    parsed = F.from_json("lines", LINES)
    head = records.withColumn("lines", F.greatest(F.size(parsed), F.lit(0))).withColumn(
        "seen_at", F.lit(run.planned_at)
    )
    return head.select("_stream", "_offset", "basket_id", "customer", "placed_at", "lines", "seen_at")


def lines(records: DataFrame) -> DataFrame:
    """Returns one row for a line. `_ordinal` tells the lines of one record apart."""
    each = records.select("_stream", "_offset", "basket_id", F.posexplode(F.from_json("lines", LINES)))
    return each.select("_stream", "_offset", F.col("pos").alias("_ordinal"), "basket_id", "col.*")
