"""Shows a pipeline's progress: the ledger's positions beside the broker's bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.alarms import headroom_seconds
from lockstep.ledger import reading, requests
from lockstep.ledger.hours import complete_through
from lockstep.steps.warn import bounds_of, readings, warnings

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka import Broker
    from lockstep.core.definition import Pipeline
    from lockstep.core.offsets import Bounds
    from lockstep.ledger.reading import Document


def status(conn: connection, broker: Broker, pipeline: Pipeline, now: datetime) -> Document:
    """Returns, per open stream, position, bounds, lag and holes. Bounds are None if the stream's log is gone.

    `complete_through` is the end of the newest hour whose every record is in the table, or None before the first.
    `requests` are the fills and replays that are not complete. `warnings` are conditions that will stop the pipeline or
    make it wait. Each has its offsets and the next command. `headroom_records` is how many offsets retention may still
    delete before it reaches one that is not committed. `headroom_seconds` is how long that takes at least. It is None
    when time deletes nothing, or nothing waits. `holes` counts the stretches between log start and position that no
    batch covers. A loss is not among them, because it lies below log start.
    """
    with transaction(conn, READER) as cur:
        streams = reading.progress(cur, pipeline.name)
        paused = reading.is_paused(cur, pipeline.name)
        unfinished = reading.unfinished(cur, pipeline.name)
        asked = requests.open_requests(cur, pipeline.name)
        through = complete_through(cur, pipeline.name)
    # Asked after the positions: a commit in between would show an end that lies behind the position.
    view = broker.view(pipeline.topic)
    kept = broker.retention(pipeline.topic) if streams else None
    bounds = {row.stream_id: found for row in streams if (found := bounds_of(row, view))}
    with transaction(conn, READER) as cur:
        holes = reading.holes(cur, pipeline.name, {stream: b.log_start for stream, b in bounds.items()})
    known = readings(broker, view, streams, bounds, kept)
    seconds = {each.where.partition: headroom_seconds(each, kept, now) for each in known}
    return {
        "pipeline": pipeline.name,
        "paused": paused,
        "unfinished": unfinished,
        "complete_through": through,
        "requests": [
            {"request": r.request_id, "lane": r.lane, "who": r.who, "why": r.why, "opened_at": r.opened_at}
            for r in asked
        ],
        "streams": [
            _stream(row, bounds.get(row.stream_id), now, kept, seconds.get(row.partition))
            | {"holes": sum(h["stream_id"] == row.stream_id and h["kind"] != "loss" for h in holes)}
            for row in streams
        ],
        "warnings": warnings(pipeline, view, known, kept, {row.partition for row in streams}, now),
    }


def holes(conn: connection, broker: Broker, pipeline: Pipeline) -> list[Document]:
    """Returns every stretch that no batch covers, with its kind. If a person decided it, it names who and why."""
    with transaction(conn, READER) as cur:
        streams = reading.progress(cur, pipeline.name)
    view = broker.view(pipeline.topic)
    starts = {row.stream_id: found.log_start for row in streams if (found := bounds_of(row, view))}
    with transaction(conn, READER) as cur:
        return [
            {name: value for name, value in hole.items() if name != "stream_id"}
            for hole in reading.holes(cur, pipeline.name, starts)
        ]


def _stream(row: Any, bounds: Bounds | None, now: datetime, kept: timedelta | None, headroom: float | None) -> Document:
    lag = bounds.stable_end - row.position if bounds else None
    lag_seconds = _lag_seconds(lag, row.newest_timestamp, now)
    return {
        "topic": row.topic,
        "partition": row.partition,
        "position": row.position,
        "log_start": bounds.log_start if bounds else None,
        "stable_end": bounds.stable_end if bounds else None,
        "lag_records": lag,
        "lag_seconds": lag_seconds,
        "headroom_records": row.position - bounds.log_start if bounds else None,
        "headroom_seconds": _headroom(kept, lag, lag_seconds) if headroom is None else headroom,
    }


def _headroom(kept: timedelta | None, lag: int | None, lag_seconds: float | None) -> float | None:
    """Estimates the headroom of a waiting record without a time: it is no older than the last committed record."""
    return max(0.0, round(kept.total_seconds() - lag_seconds, 3)) if kept and lag and lag_seconds else None


def _lag_seconds(lag: int | None, newest: datetime | None, now: datetime) -> float | None:
    """Returns 0 if nothing waits, else the age of the last committed record, or None if there is none (T19)."""
    if lag == 0:
        return 0.0
    if lag is None or newest is None:
        return None
    return max(0.0, round((now - newest).total_seconds(), 3))
