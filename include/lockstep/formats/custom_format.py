"""Decodes with the pipeline's own function, in the executors' Python, from the source in the definition's hash."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockstep.core.errors import BadDefinition
from lockstep.formats.own_code import function_of, refuse_vain_deletion
from lockstep.formats.own_decoder import OwnDecoder
from lockstep.formats.rows import decoded_in_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.formats import Custom


def decoded(records: DataFrame, pipeline: Pipeline, format_: Custom, source: str | None) -> DataFrame:
    """Adds the declared columns, `_deleted`, `_reason` and `_filtered` to raw records.

    Reads their `_key`, `_value` and `_headers`. Raises `BadDefinition` if the decoder does not load.
    """
    try:
        function_of(format_.function, source)  # here first: a decoder that cannot be loaded starts no task
        refuse_vain_deletion(format_, source, pipeline.targets)
    except BadDefinition as fault:
        raise BadDefinition(f"{pipeline.name}: {fault}", next_command=f"lockstep check {pipeline.name}") from None
    decoder = partial(OwnDecoder, format_, source, pipeline.targets)
    return decoded_in_python(records, format_.columns, decoder, pipeline.record_limits)
