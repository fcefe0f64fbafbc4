"""Decodes Avro in the executors' Python, each record by its writer's schema."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockstep.formats.avro.decoder import avro_decoder
from lockstep.formats.registered import require_registry
from lockstep.formats.rows import decoded_in_python
from lockstep.formats.tombstones import with_plain_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lockstep.core.formats.registered import Avro
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry


def decoded(records: DataFrame, pipeline: Pipeline, format_: Avro, registry: Registry | None) -> DataFrame:
    """Adds the declared columns, `_deleted`, `_reason` and `_filtered` to raw records.

    Reads their `_key`, `_value` and `_headers`. Raises `BadDefinition` without a registry.
    """
    decoder = partial(avro_decoder, pipeline, format_, require_registry(pipeline, format_, registry))
    frame = decoded_in_python(records, format_.columns, decoder, pipeline.record_limits)
    return with_plain_keys(frame, pipeline)
