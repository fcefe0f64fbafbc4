"""Renders event time: the watermark, what holds it, and the windows with their states."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.core.errors import Refusal
from lockstep.core.pipeline.names import pipeline_of_dag
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.core.windows.event_time import parse_duration
from lockstep.ledger.views import overview
from lockstep.ledger.windows import reading
from lockstep.ledger.windows.times import read_watermark
from lockstep.steps.windows.look import holders, windows_document
from lockstep.web.pictures.clock import shift_later
from lockstep.web.pictures.event_lanes import completeness, corrections, event_lanes
from lockstep.web.place import (
    page_session,
    reading_ledger,
    remembered,
    require_pipeline,
    statuses,
)
from lockstep.web.render import page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.pipeline.definition import EventTime, Pipeline, Windows
    from lockstep.ledger.views.reading import Document

PARTITIONS_PER_PAGE = 40
WINDOWS_TO_CHOOSE = (24, 100, 500)


@dataclass(frozen=True, slots=True)
class TimeChoices:
    """The choices of a reader: the table, the number of windows, and the first partition, the most behind first."""

    target: str = ""
    last: int = WINDOWS_TO_CHOOSE[0]
    first: int = 0


def timed_pipeline(name: str) -> Pipeline | None:
    """Returns the pipeline if it has windows, by its newest definition. None without one, or without windows."""
    with reading_ledger() as cur:
        document = overview.newest_definition(cur, name)
    if document is None:
        require_pipeline(name)
        return None
    pipeline = pipeline_of_document(document)
    return pipeline if pipeline.windows and pipeline.event_time else None


def chosen_windows(pipeline: Pipeline, table: str) -> Windows:
    """Returns the target with windows of that table, or without a table the first one."""
    for target in pipeline.windows:
        if table in {"", target.table}:
            return target
    raise HTTPException(404, f"No target {table} of {pipeline.name} has windows.")


def time_page(dag_id: str, asked: TimeChoices) -> str:
    """Renders the event time of the DAG's pipeline."""
    name = pipeline_of_dag(dag_id)
    pipeline = timed_pipeline(name)
    if pipeline is None or pipeline.event_time is None:
        return page("time.html.jinja", dag_id=dag_id, pipeline=name, target=None)
    target = chosen_windows(pipeline, asked.target)
    with reading_ledger() as cur:
        found = read_watermark(cur, name)
        streams = reading.stream_times(cur, name, pipeline.event_time)
        coming = reading.next_window(cur, name, target.table)
    if asked.first and asked.first >= len(streams):
        raise HTTPException(404, f"Pipeline {name} has only {len(streams)} partitions.")
    watermark, now = found and found.watermark, datetime.now(UTC)
    told = remembered_windows(pipeline, target, asked.last)
    by_time = sorted(streams, key=lambda each: (each["time"] is not None, each["time"] or now, each["partition"]))
    shown = by_time[asked.first : asked.first + PARTITIONS_PER_PAGE]
    windows = told["windows"] if told else []
    return page(
        "time.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        target=target,
        tables=[each.table for each in pipeline.windows],
        event_time=pipeline.event_time,
        asked=asked,
        watermark=watermark,
        moved_at=found and found.moved_at,
        behind=(now - watermark).total_seconds() if watermark else None,
        held_by=_held_by(name, streams, pipeline.event_time),
        coming=coming and _coming(coming, pipeline.event_time, now),
        told=told,
        windows=[
            each | {"complete": completeness(each, watermark), "corrections": corrections(each)} for each in windows
        ],
        picture=event_lanes(windows, shown, watermark, now),
        count=len(streams),
        most=PARTITIONS_PER_PAGE,
        to_choose=WINDOWS_TO_CHOOSE,
    )


def remembered_windows(pipeline: Pipeline, target: Windows, last: int) -> Document | None:
    """Returns `lockstep windows` of some seconds ago, or None while it is counted.

    Its duration grows with the number of windows.
    """
    ask = partial(_counted, pipeline, target, last)
    found: Document | None = remembered(f"windows {pipeline.name} {target.table} {last}", ask)
    return found


def _counted(pipeline: Pipeline, target: Windows, last: int) -> Document | None:
    try:
        with page_session() as conn:
            return windows_document(conn, pipeline, target, last)
    except Refusal:
        return None


def _held_by(name: str, streams: list[Document], event_time: EventTime) -> list[Document]:
    """Returns the partitions that hold the watermark, each with what is known of its log."""
    held = holders(streams)
    status, _ = statuses([name])[name] if held else (None, None)
    lags = {each["partition"]: each["lag_records"] for each in status["streams"]} if status else {}
    warned = {each["partition"]: each for each in status["warnings"]} if status else {}
    return [each | _log_of(each["partition"], lags, warned, event_time) for each in held]


def _log_of(
    partition: int, lags: Mapping[int, int | None], warned: Mapping[int, Document], event_time: EventTime
) -> Document:
    lag, warning = lags.get(partition), warned.get(partition)
    if warning is not None:
        return {"log": warning["message"], "next": warning["next"]}
    if lag:
        return {"log": f"{lag:,} of its records wait to be committed", "next": None}
    if lag == 0:
        until = f"no longer than {event_time.idle}" if event_time.idle else "until one comes"
        return {"log": f"it is silent: no record waits in it, and it holds the watermark {until}", "next": None}
    return {"log": None, "next": None}


def _coming(window: Any, event_time: EventTime, now: datetime) -> Document:
    """Returns the next window to come out: its end, its keys, and the event that each partition needs for it.

    `latest` is when silent partitions have let go, and None if they never do.
    """
    delay = parse_duration(event_time.delay, "event_time: delay")
    idle = None if event_time.idle is None else parse_duration(event_time.idle, "event_time: idle")
    needs = shift_later(window.ends, delay)
    return {
        "ends": window.ends,
        "keys": window.keys,
        "needs": needs,
        "is_over": needs <= now,
        "latest": None if idle is None else max(now, shift_later(needs, idle)),
    }
