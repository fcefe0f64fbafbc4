"""Adds the envelope's columns, and rejects records without a column that the target needs, for every format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.core.pipeline.columns import NUL, NUL_REASON
from lockstep.core.pipeline.formats import marked_columns
from lockstep.core.pipeline.targets import needed_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.formats import Envelope

HEADERS = "array<struct<key string, value string>>"


def finished(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Adds the envelope's columns. Rejects records without a column that the target needs. A reject has only nulls."""
    frame = records.withColumns(_columns(pipeline.envelope)) if pipeline.envelope else records
    faults = [*(_faults(pipeline.envelope) if pipeline.envelope else ()), *_nulls(pipeline)]
    if faults:
        live = F.col("_reason").isNull() & ~F.col("_deleted")
        if "_filtered" in frame.columns:
            live &= ~F.col("_filtered")
        reason = F.when(~live, F.col("_reason"))
        for bad, why in faults:
            reason = reason.when(bad, F.lit(why))
        frame = frame.withColumn("_reason", reason)
    taken = F.col("_reason").isNull()
    values = {column.name: F.when(taken, F.col(column.name)) for column in marked_columns(pipeline.format) if faults}
    for column in pipeline.envelope.columns if pipeline.envelope else ():
        values[column.name] = F.when(taken & ~F.col("_deleted"), F.col(column.name))
    return (frame.withColumns(values) if values else frame).drop("_topic", "_partition")


def _columns(envelope: Envelope) -> dict[str, Column]:
    columns: dict[str | None, Column] = {
        envelope.timestamp: F.col("_timestamp"),
        envelope.headers: F.to_json(F.transform(_headers(), _header)),
        envelope.partition: F.col("_partition"),
        envelope.offset: F.col("_offset"),
        envelope.topic: F.col("_topic"),
    }
    if envelope.key_column is not None:
        columns[envelope.key_column.name] = F.col("_key").cast(envelope.key_column.type)
    return {name: column for name, column in columns.items() if name is not None}


def _headers() -> Column:
    return F.from_json("_headers", HEADERS)


def _header(header: Column) -> Column:
    """Returns a header as text if Postgres can hold it, else as base64. A header without a value has neither."""
    raw = F.unbase64(header["value"])
    text = raw.cast("string")
    is_text = F.is_valid_utf8(text) & ~F.contains(text, F.lit(NUL))
    return F.struct(
        header["key"].alias("key"),
        F.when(is_text, text).alias("value"),
        F.when(~is_text, header["value"]).alias("base64"),
    )


def _faults(envelope: Envelope) -> list[tuple[Column, str]]:
    faults = []
    key = envelope.key_column
    if key is not None and key.type == "string":
        text = F.col("_key").cast("string")
        faults += [
            (~F.is_valid_utf8(text), f"column {key.name}: the key is not valid UTF-8"),
            (F.contains(text, F.lit(NUL)), f"column {key.name}: {NUL_REASON}"),
        ]
    if envelope.headers is not None:
        odd = F.exists(_headers(), lambda header: F.contains(header["key"], F.lit(NUL)))
        faults.append((odd, f"column {envelope.headers}: a name {NUL_REASON}"))
    return faults


def _nulls(pipeline: Pipeline) -> list[tuple[Column, str]]:
    declared = {column.name for column in pipeline.columns}
    needed = [name for name in needed_columns(pipeline.targets, pipeline.event_time) if name in declared]
    return [(F.col(n).isNull(), f"column {n}: null, and the target's key or order needs it") for n in needed]
