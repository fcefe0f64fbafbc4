"""Decodes change records in the executors' Python."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockstep.core.pipeline.formats import marked_columns
from lockstep.formats.debezium.documents import change_decoder
from lockstep.formats.registered import require_registry
from lockstep.formats.rows import decoded_in_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lockstep.core.capture.debezium import Debezium
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry


def decoded(records: DataFrame, pipeline: Pipeline, format_: Debezium, registry: Registry | None) -> DataFrame:
    """Adds the declared columns, `_deleted`, `_reason` and `_filtered` to raw records.

    Reads their `_key` and `_value`. Raises `BadDefinition` if they are Avro and there is no registry.
    """
    if format_.wire is not None:
        registry = require_registry(pipeline, format_.wire, registry)
    decoder = partial(change_decoder, pipeline, format_, registry)
    return decoded_in_python(records, marked_columns(format_), decoder, pipeline.record_limits)
