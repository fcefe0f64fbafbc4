"""Runs a small job along the way of a batch: read, decode, through Python and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa


def passed_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the batches unchanged."""
    yield from batches


def main() -> None:
    """Runs the job once."""
    session = SparkSession.builder.getOrCreate()
    text = F.to_json(F.struct("id", F.current_timestamp().alias("at")))
    records = session.range(100).select(F.from_json(text, "id bigint, at timestamp").alias("record"))
    live = F.when(F.col("record.id").isNotNull(), F.col("record.id").cast("decimal(20,2)"))
    frame = records.select(live.alias("id"), F.col("record.at").cast("string").alias("at"))
    frame.coalesce(1).mapInArrow(passed_on, "id decimal(20,2), at string").collect()
    session.stop()


if __name__ == "__main__":
    main()
