"""Spark's source: the raw records of a batch's ranges, these and no others, with their coordinates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.adapters.spark_session import session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from lockstep.core.staging import StageWork

NO_MOMENT_BEFORE, LAST_DAY = "1970-01-01T00:00:00Z", "9999-12-31T00:00:00Z"
RAW = (
    "_stream int, _offset bigint, _ordinal int, _timestamp timestamp, _key binary, _value binary, _headers string, "
    "_bytes int, _partition int"
)
FETCH_WAIT_MS = "10"  # a range's tail waits this long for bytes that will not come


def records_of(work: StageWork, kafka: str, kafka_options: Mapping[str, str]) -> DataFrame:
    """The ranges' records as `RAW`, coordinates and all: assigned partitions, numeric offsets, committed records only."""
    topic = work.ranges[0].offsets.topic_partition.topic
    parts = {item.offsets.topic_partition.partition: item for item in work.ranges}
    options = {f"kafka.{name}": value for name, value in kafka_options.items()} | {
        "kafka.bootstrap.servers": kafka,
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.wait.ms": FETCH_WAIT_MS,
        "assign": json.dumps({topic: sorted(parts)}),
        "startingOffsets": json.dumps({topic: {str(p): i.offsets.from_offset for p, i in parts.items()}}),
        "endingOffsets": json.dumps({topic: {str(p): i.offsets.until_offset for p, i in parts.items()}}),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
    raw = session().read.format("kafka").options(**options).load()
    streams = F.expr(f"map({', '.join(f'{p}, {item.stream_id}' for p, item in parts.items())})")
    headers = F.to_json(F.transform("headers", lambda h: F.struct(h["key"], F.base64(h["value"]).alias("value"))))
    size = F.coalesce(F.length("key"), F.lit(0)) + F.coalesce(F.length("value"), F.lit(0))
    return raw.select(
        F.element_at(streams, F.col("partition")).alias("_stream"),
        F.col("offset").alias("_offset"),
        F.lit(0).alias("_ordinal"),
        _moment(F.col("timestamp")).alias("_timestamp"),
        F.col("key").alias("_key"),
        F.col("value").alias("_value"),
        headers.alias("_headers"),
        size.alias("_bytes"),
        F.col("partition").alias("_partition"),
    )


def _moment(timestamp: SparkColumn) -> SparkColumn:
    """A record's time; Kafka writes -1 for none, and what lies past Python's calendar is its last day."""
    at_most = F.least(timestamp, F.lit(LAST_DAY).cast("timestamp"))
    return F.when(timestamp >= F.lit(NO_MOMENT_BEFORE).cast("timestamp"), at_most)
