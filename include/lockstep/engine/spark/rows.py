"""Selects the columns of records for transforms and staging, and casts the results to the target's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it
from pyspark.sql.pandas.types import from_arrow_schema

from lockstep.core.records import BYTES_COLUMNS, HIDDEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.folder import PipelineFolder


def in_spark(schema: pa.Schema) -> StructType:
    """Returns Spark's type of rows with an Arrow schema. Words would cost a call of the JVM that parses them."""
    return from_arrow_schema(schema)


def with_bytes(records: DataFrame, folder: PipelineFolder) -> DataFrame:
    """Returns the records with bytes for rejects only, or for all if an expectation may put a record aside."""
    return records.withColumns({name: _kept(name, folder) for name in BYTES_COLUMNS})


def taken_in(records: DataFrame, folder: PipelineFolder, intake: Any) -> DataFrame:
    """Returns the transform's input: the records that the intake accepts, without Lockstep's own columns."""
    aside = records.withColumn("_value", _kept("_value", folder))
    return aside.mapInArrow(intake, aside.drop(*HIDDEN).schema)


def typed(out: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Casts a transform's output to the target's types."""
    may_have = {"_ordinal": "int", "_timestamp": "timestamp"}
    reserved = {"_stream": "int", "_offset": "bigint"} | {n: t for n, t in may_have.items() if n in out.columns}
    casts = [F.col(name).cast(type_).alias(name) for name, type_ in reserved.items()]
    casts += [F.col(column.name).cast(column.type).alias(column.name) for column in columns]
    return out.select(*casts)


def _kept(name: str, folder: PipelineFolder) -> SparkColumn:
    return F.when(F.lit(folder.quarantines) | F.col("_reason").isNotNull(), F.col(name))
