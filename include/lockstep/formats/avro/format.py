"""Decodes Avro in the executors' Python, each record by its writer's schema."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.core.errors import BadDefinition
from lockstep.formats.avro.decoder import Decoder
from lockstep.formats.avro.schemas import schemas
from lockstep.formats.rows import decoded_in_python
from lockstep.formats.tombstones import key_as, why_no_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.formats import Avro
    from lockstep.core.registry import Registry


def decoded(records: DataFrame, pipeline: Pipeline, format_: Avro, registry: Registry | None) -> DataFrame:
    """Adds the declared columns, `_deleted`, `_reason` and `_filtered` to raw records.

    Reads their `_key`, `_value` and `_headers`. Raises `BadDefinition` without a registry.
    """
    decoder = partial(_decoder, pipeline, format_, require_registry(pipeline, registry))
    frame = decoded_in_python(records, format_.columns, decoder, pipeline.record_limits.bytes)
    if not pipeline.takes_tombstones or format_.key is None:
        return frame
    # A deletion without a reason and without a key has a key of plain text, which is read as for JSON.
    plain = F.col("_deleted") & F.col("_reason").isNull() & F.col(format_.key).isNull()
    type_ = next(column.type for column in format_.columns if column.name == format_.key)
    frame = frame.withColumn("_plain", plain).withColumns(
        {
            "_reason": F.when(F.col("_plain"), why_no_key(pipeline)).otherwise(F.col("_reason")),
            format_.key: F.when(F.col("_plain"), key_as(type_)).otherwise(F.col(format_.key)),
        }
    )
    return frame.drop("_plain")


def require_registry(pipeline: Pipeline, registry: Registry | None) -> Registry:
    """Returns the registry, or raises `BadDefinition` if none is set."""
    if registry is None:
        raise BadDefinition(
            f"{pipeline.name}: its format is Avro, and LOCKSTEP_REGISTRY is not set",
            next_command="export LOCKSTEP_REGISTRY=http://host:8081",
        )
    return registry


def _decoder(pipeline: Pipeline, format_: Avro, registry: Registry) -> Decoder:
    return Decoder(pipeline, format_, schemas(registry))
