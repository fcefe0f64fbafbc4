"""Casts a transform's output to its target's types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it
from pyspark.sql.pandas.types import from_arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from lockstep.core.pipeline.columns import Column


def in_spark(schema: pa.Schema) -> StructType:
    """Returns Spark's type of rows with an Arrow schema. Words would cost a call of the JVM that parses them."""
    return from_arrow_schema(schema)


def typed(out: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Casts a transform's output to the target's types."""
    may_have = {"_ordinal": "int", "_timestamp": "timestamp"}
    reserved = {"_stream": "int", "_offset": "bigint"} | {n: t for n, t in may_have.items() if n in out.columns}
    casts = [F.col(name).cast(type_).alias(name) for name, type_ in reserved.items()]
    casts += [F.col(column.name).cast(column.type).alias(column.name) for column in columns]
    return out.select(*casts)
