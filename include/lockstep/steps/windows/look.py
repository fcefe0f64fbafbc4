"""Tells how far event time has come, what holds it, and what became of the windows and of late records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.windows.window_findings import TimeFacts
from lockstep.ledger.windows import reading
from lockstep.ledger.windows.times import read_watermark

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg2.extensions import connection

    from lockstep.core.pipeline.definition import Pipeline, Windows
    from lockstep.ledger.views.reading import Document


def target_with_windows(pipeline: Pipeline, table: str | None, again: str) -> Windows:
    """Returns the target with windows, by its table's name if there are several. `again` is the command to type then."""
    require_windows(pipeline)
    named = [target for target in pipeline.windows if table in {None, target.table}]
    tables = ", ".join(target.table for target in pipeline.windows)
    if not named:
        raise Refusal(f"{pipeline.name}: {table} has no windows; there are: {tables}", next_command=again)
    if len(named) > 1:
        raise Refusal(
            f"{pipeline.name}: several targets have windows: {tables}",
            next_command=f"{again} --target {named[0].table}",
        )
    return named[0]


def require_windows(pipeline: Pipeline) -> None:
    """Refuses a pipeline without a target that has windows."""
    if not pipeline.windows:
        raise Refusal(f"{pipeline.name}: no target of it has windows", next_command=f"lockstep status {pipeline.name}")


def windows_document(conn: connection, pipeline: Pipeline, target: Windows, last: int) -> Document:
    """Returns the watermark, the streams that hold it, and the newest windows of a target with their states."""
    assert pipeline.event_time is not None  # noqa: S101 - a definition with windows has one
    with transaction(conn, READER) as cur:
        found = read_watermark(cur, pipeline.name)
        times = reading.stream_times(cur, pipeline.name, pipeline.event_time)
        counts = reading.window_counts(cur, pipeline.name, target.table)
        windows = reading.newest_windows(cur, pipeline.name, target, last)
    return {
        "pipeline": pipeline.name,
        "target": target.table,
        "watermark": found and found.watermark,
        "held_by": holders(times),
        "counts": counts,
        "windows": windows,
    }


def facts_of_time(conn: connection, pipeline: Pipeline) -> TimeFacts | None:
    """Returns how far event time has come, and how much was late. None without windows, and before the first plan."""
    if not pipeline.windows or pipeline.event_time is None:
        return None
    with transaction(conn, READER) as cur:
        found = reading.time_facts(cur, pipeline.name, [target.table for target in pipeline.windows])
        times = reading.stream_times(cur, pipeline.name, pipeline.event_time) if found else []
    if found is None:
        return None
    held_by = tuple(f"{each['topic']}-{each['partition']}" for each in holders(times))
    return TimeFacts(found.watermark, found.newest, held_by, found.late, found.counted)


def holders(times: list[Document]) -> list[Document]:
    """Returns the streams whose time is the least, each with the reason: the watermark waits for them."""
    known = [each["time"] for each in times if each["time"] is not None]
    least = min(known) if len(known) == len(times) and known else None
    held = [each for each in times if each["time"] == least]
    return [
        {
            "topic": each["topic"],
            "partition": each["partition"],
            "time": each["time"],
            "seen": each["seen"],
            "idle_at": each["idle_at"],
            "why": _why(each),
        }
        for each in held
    ]


def _why(stream: Document) -> str:
    if stream["seen"] is None and stream["idle_at"] is None:
        return "no event of it is committed yet"
    if stream["is_idle"]:
        return "it is idle"
    if stream["seen"] is None:
        return "no event of it is committed yet"
    return "its newest committed event is the oldest of all partitions'"


def late_document(conn: connection, pipeline: Pipeline, target: Windows, partition: int | None, last: int) -> Document:
    """Returns how many rows of a target are late, the newest windows that they missed, and the newest of them."""
    with transaction(conn, READER) as cur:
        count, by_window, records = reading.read_late(cur, target.table, partition, last)
    return {
        "pipeline": pipeline.name,
        "target": target.table,
        "late": count,
        "by_window": by_window,
        "records": records,
    }


def times_of_pipeline(cur: Any, pipeline: Pipeline, now: datetime) -> Document:
    """Returns the watermark of a pipeline, its windows and late rows, for `status`. Returns nothing without windows."""
    if not pipeline.windows:
        return {}
    found = read_watermark(cur, pipeline.name)
    watermark = found and found.watermark
    windows = [
        {"target": target.table} | reading.window_counts(cur, pipeline.name, target.table)
        for target in pipeline.windows
    ]
    return {
        "watermark": watermark,
        "watermark_lag_seconds": watermark and round((now - watermark).total_seconds(), 3),
        "late_rows": sum(each["late_rows"] for each in windows),
        "windows": windows,
    }
