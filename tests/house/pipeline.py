"""The house's one pipeline: keyed or appended, over a topic that is only remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.definition import Append, Json, Limits, PerBatch, PerPartition, Pipeline, Upsert
from lockstep.core.folder import PipelineFolder

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = """id text {key}, n bigint, factor int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null"""
APPENDED = f"create table public.house ({COLUMNS.format(key='')}, primary key (_stream, _offset, _ordinal));"
KEYED = f"create table public.house ({COLUMNS.format(key='primary key')});"


def folder_of(home: Path, *, keyed: bool, records: int, by_partition: bool = False) -> PipelineFolder:
    """The pipeline with batches of so many records, and its target."""
    fmt = Json("id string, n bigint, factor int", key="id" if keyed else None)
    target = Upsert("public.house", key=("id",)) if keyed else Append("public.house")
    pipeline = Pipeline(
        "house",
        "house.v1",
        fmt,
        target,
        limits=Limits(records=records),
        guarantee=PerPartition() if by_partition else PerBatch(),
        max_reject_share=1.0,
    )
    return PipelineFolder(pipeline, home, None, None, KEYED if keyed else APPENDED)
