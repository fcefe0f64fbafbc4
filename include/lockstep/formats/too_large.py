"""Rejects records past a limit, and those that kill their reader, whatever their format. Their bytes were removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.core.isolation import READER_BUSY_TWICE, READER_ENDED_TWICE
from lockstep.core.pipeline.limits import TOO_MANY_HEADERS
from lockstep.core.records import HEADERS_UNIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lockstep.core.pipeline.definition import Pipeline


def refused(records: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Returns the decoded records. Those past a limit, and hidden ones, become rejects without values."""
    most = pipeline.record_limits.bytes
    many = TOO_MANY_HEADERS.format("%d", pipeline.record_limits.headers)
    fits = F.coalesce(F.col("_bytes").between(0, most), F.lit(True))  # noqa: FBT003 - a literal; a file's row has no bytes
    marks = {"_deleted": fits & F.col("_deleted")}
    if "_filtered" in records.columns:
        marks["_filtered"] = fits & F.col("_filtered")
    reason = F.format_string(f"is %d bytes after decompression; the limit is {most} (record_limits.bytes)", "_bytes")
    headers = F.format_string(many, F.expr(f"_bytes div {HEADERS_UNIT}"))
    reason = F.when(F.col("_bytes") >= HEADERS_UNIT, headers).otherwise(reason)
    reason = F.when(F.col("_bytes") < 0, F.lit(READER_ENDED_TWICE)).otherwise(reason)
    reason = F.when(F.col("_bytes") < -HEADERS_UNIT, F.lit(READER_BUSY_TWICE)).otherwise(reason)
    values = {column.name: F.when(fits, F.col(column.name)) for column in pipeline.staged_columns}
    return records.withColumns({**marks, "_reason": F.when(fits, F.col("_reason")).otherwise(reason), **values})
