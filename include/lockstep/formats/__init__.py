"""Decodes bytes to columns, with the reason of each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.registry import Registry
    from lockstep.formats.judged import RecordDecoder


def decoder_of(folder: PipelineFolder, registry: Registry | None, *, keeps_bytes: bool) -> RecordDecoder:
    """Returns the decoder of raw records. Raises `BadDefinition` without the registry or own decoder that it needs."""
    from lockstep.formats.judged import RecordDecoder
    from lockstep.formats.judges import require_judge

    require_judge(folder.pipeline, folder.decode, registry)
    return RecordDecoder(folder.pipeline, folder.decode, registry, keeps_bytes)


def decoded(records: DataFrame, folder: PipelineFolder, registry: Registry | None = None) -> DataFrame:
    """Returns raw records with the pipeline's columns, `_deleted`, `_reason` and `_filtered`. A reject has only nulls."""
    from lockstep.core.pipeline.formats import marked_columns
    from lockstep.core.records import MARK_COLUMNS
    from lockstep.formats.judged import UNREPEATED

    pipeline = folder.pipeline
    columns = [*marked_columns(pipeline.format), *(pipeline.envelope.columns if pipeline.envelope else ())]
    names = [*MARK_COLUMNS, *((f"`{column.name}`", column.type) for column in columns)]
    added = records.sparkSession.createDataFrame([], ", ".join(f"{name} {type_}" for name, type_ in names)).schema
    kept = [field for field in records.schema.fields if field.name not in UNREPEATED]
    schema = type(added)([*kept, *added.fields])
    decoder = decoder_of(folder, registry, keeps_bytes=True)

    def in_order(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in decoder(batches):
            yield batch.select(schema.names)  # Spark takes columns by their places

    return records.mapInArrow(in_order, schema)
