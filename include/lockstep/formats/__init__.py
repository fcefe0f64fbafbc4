"""Decodes bytes to columns, with the reason of each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.capture.debezium import Debezium
from lockstep.core.formats.registered import Avro, Protobuf
from lockstep.core.pipeline.formats import Custom, Json, Raw

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry
    from lockstep.formats.judged import JudgedRecords

    Decode = Callable[[pa.Array], tuple[np.ndarray, pa.RecordBatch]]


def decoded(
    records: DataFrame, pipeline: Pipeline, *, decode: str | None = None, registry: Registry | None = None
) -> DataFrame:
    """Adds the pipeline's columns, `_deleted` and `_reason` to raw records. A reject has only nulls.

    A format may add `_filtered`, too. `decode` is the source of the pipeline's own decoder.
    """
    from lockstep.formats.envelope import finished
    from lockstep.formats.too_large import refused

    return refused(finished(_of_format(records, pipeline, decode, registry), pipeline), pipeline)


def decoder_by_columns(pipeline: Pipeline, registry: Registry | None) -> Decode | None:
    """Returns a decoder by columns for the pipeline, or None if its definition does not allow that."""
    if isinstance(pipeline.format, Avro):
        from lockstep.formats.avro.columns import avro_columns

        return avro_columns(pipeline, registry)
    from lockstep.formats.json.columns import columnar

    return columnar(pipeline)


def decoder_in_python(pipeline: Pipeline, registry: Registry | None, *, keeps_bytes: bool) -> JudgedRecords:
    """Returns a decoder of all raw records, for a format that Python decodes."""
    from lockstep.formats.judged import JudgedRecords

    return JudgedRecords(pipeline, registry, keeps_bytes)


def _of_format(records: DataFrame, pipeline: Pipeline, decode: str | None, registry: Registry | None) -> DataFrame:
    match pipeline.format:
        case Json() as format_:
            from lockstep.formats.json import format as json_format

            return json_format.decoded(records, pipeline, format_, registry)
        case Avro() as format_:
            from lockstep.formats.avro import format as avro_format

            return avro_format.decoded(records, pipeline, format_, registry)
        case Protobuf() as format_:
            from lockstep.formats.protobuf import format as protobuf_format

            return protobuf_format.decoded(records, pipeline, format_, registry)
        case Raw() as format_:
            from lockstep.formats import raw_format

            return raw_format.decoded(records, format_)
        case Custom() as format_:
            from lockstep.formats import custom_format

            return custom_format.decoded(records, pipeline, format_, decode)
        case Debezium() as format_:
            from lockstep.formats.debezium import format as debezium_format

            return debezium_format.decoded(records, pipeline, format_, registry)
