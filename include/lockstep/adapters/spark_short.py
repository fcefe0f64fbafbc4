"""Spark, the short way: what can be decoded by columns never comes before Spark's own decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.spark_source import RAW
from lockstep.formats.json_columns import columnar
from lockstep.staging.short_way import FILE, ShortWay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lockstep.core.folder import PipelineFolder


def shortened(raw: DataFrame, folder: PipelineFolder) -> DataFrame:
    """Raw records, those that were decoded by columns replaced by the names of their files; untouched where none can be."""
    decode = columnar(folder.pipeline)
    if decode is None:
        return raw
    return raw.mapInArrow(ShortWay(decode, keeps_bytes=folder.quarantines).left, f"{RAW}, {FILE} string")
