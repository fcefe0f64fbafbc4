"""Writes Kafka records to Postgres in gap-checked batches, with results and offsets in one transaction.

Pipelines import their names from here, DAG files from `lockstep.airflow`, tests of pipelines from `lockstep.testing`.
A notebook calls `rows` and `records`, an orchestrator `run`, `plan`, `replay`, `status` and `verify`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.calls import pipeline_status as status
    from lockstep.calls import plan_pipeline as plan
    from lockstep.calls import replay_pipeline as replay
    from lockstep.calls import run_pipeline as run
    from lockstep.calls import verify_pipeline as verify
    from lockstep.core.lake.iceberg import Iceberg
    from lockstep.core.pipeline.definition import (
        Accumulate,
        Append,
        Archive,
        AtLeastOnce,
        AtMostOnce,
        Avro,
        Calendar,
        Count,
        Custom,
        Debezium,
        Delete,
        Envelope,
        EventTime,
        Feed,
        Files,
        History,
        Hopping,
        Idempotent,
        Json,
        Limits,
        Max,
        Min,
        PerBatch,
        PerPartition,
        Pipeline,
        Postgres,
        Protobuf,
        Raw,
        RecordLimits,
        Send,
        Sum,
        Topic,
        Topics,
        Tumbling,
        Upsert,
        Windows,
    )
    from lockstep.core.staging import Run
    from lockstep.notebook import records, rows

__all__ = [
    "Accumulate",
    "Append",
    "Archive",
    "AtLeastOnce",
    "AtMostOnce",
    "Avro",
    "Calendar",
    "Count",
    "Custom",
    "Debezium",
    "Delete",
    "Envelope",
    "EventTime",
    "Feed",
    "Files",
    "History",
    "Hopping",
    "Iceberg",
    "Idempotent",
    "Json",
    "Limits",
    "Max",
    "Min",
    "PerBatch",
    "PerPartition",
    "Pipeline",
    "Postgres",
    "Protobuf",
    "Raw",
    "RecordLimits",
    "Run",
    "Send",
    "Sum",
    "Topic",
    "Topics",
    "Tumbling",
    "Upsert",
    "Windows",
    "plan",
    "records",
    "replay",
    "rows",
    "run",
    "status",
    "verify",
]
_HOMES = {"Run": "lockstep.core.staging", "records": "lockstep.notebook", "rows": "lockstep.notebook"}
# By these names the rooms have steps, which the calls lead to.
_CALLS = {
    "plan": "plan_pipeline",
    "replay": "replay_pipeline",
    "run": "run_pipeline",
    "status": "pipeline_status",
    "verify": "verify_pipeline",
}
_HOMES |= {"Iceberg": "lockstep.core.lake.iceberg"}


def __getattr__(name: str) -> object:
    """Returns a public name. Its module is imported at its first use, so that one's own imports stay quick."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _CALLS:
        return getattr(import_module("lockstep.calls"), _CALLS[name])
    return getattr(import_module(_HOMES.get(name, "lockstep.core.pipeline.definition")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
