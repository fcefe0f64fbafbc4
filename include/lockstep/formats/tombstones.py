"""Reads a tombstone's Kafka key, as plain text, into the key column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.core.pipeline.columns import NUL
from lockstep.formats.json.literals import exact_cast

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lockstep.core.pipeline.definition import Pipeline

PLAIN_TOMBSTONE = "$plain"  # as no column of a definition is called


def key_as(type_: str, its_key: str = "_key") -> Column:
    """Returns the Kafka key's text as the key column's type, or null if it does not say exactly that."""
    return exact_cast(F.col(its_key).cast("string"), type_)


def why_no_key(pipeline: Pipeline, its_key: str = "_key") -> Column:
    """Returns the reason why a tombstone's key names no row, or null if it does."""
    if pipeline.format.key is None:
        return F.lit(None).cast("string")
    key = F.col(its_key).cast("string")
    type_ = next(c.type for c in pipeline.format.columns if c.name == pipeline.format.key)
    bad = key.isNull() | ~F.is_valid_utf8(key) | F.contains(key, F.lit(NUL)) | key_as(type_, its_key).isNull()
    return F.when(bad, F.lit(f"tombstone: its key is not a {type_}"))


def with_plain_keys(frame: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Reads as text the keys of tombstones that no schema has read. These have neither a reason nor a key column."""
    key = pipeline.format.key
    if not pipeline.takes_tombstones or not isinstance(key, str):
        return frame
    type_ = next(column.type for column in pipeline.format.columns if column.name == key)
    plain = F.col("_deleted") & F.col("_reason").isNull() & F.col(key).isNull()
    frame = frame.withColumn(PLAIN_TOMBSTONE, plain).withColumns(
        {
            "_reason": F.when(F.col(PLAIN_TOMBSTONE), why_no_key(pipeline)).otherwise(F.col("_reason")),
            key: F.when(F.col(PLAIN_TOMBSTONE), key_as(type_)).otherwise(F.col(key)),
        }
    )
    return frame.drop(PLAIN_TOMBSTONE)
