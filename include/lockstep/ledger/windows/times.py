"""Moves the event time of a pipeline and its streams, and judges the offsets that a batch covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.windows.event_time import parse_duration
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.windows.event_time import EventTime

Q = queries("lockstep.ledger.windows", "times")


def begin_event_time(cur: cursor, pipeline: Pipeline) -> None:
    """Begins the event time of a pipeline with windows, before its first live batch. Later it changes nothing."""
    if pipeline.windows:
        cur.execute(Q["begin"], {"pipeline": pipeline.name})


def judge(cur: cursor, batch_id: int) -> None:
    """Keeps the watermark that the batch's offsets are judged by. A replay judges none: its offsets are judged already."""
    cur.execute(Q["judge"], {"batch_id": batch_id})


def open_times(cur: cursor, pipeline: str) -> None:
    """Begins the time of open streams that have none with the pipeline's watermark."""
    cur.execute(Q["open_times"], {"pipeline": pipeline})


def raise_watermark(cur: cursor, pipeline: str, event_time: EventTime) -> bool:
    """Raises the watermark to the least time of the open streams. Returns True if it has moved."""
    idle = None if event_time.idle is None else parse_duration(event_time.idle, "event_time: idle")
    delay = parse_duration(event_time.delay, "event_time: delay")
    cur.execute(Q["rise"], {"pipeline": pipeline, "delay": delay, "idle": idle})
    return bool(cur.rowcount)


def read_watermark(cur: cursor, pipeline: str) -> Any | None:
    """Returns the watermark of a pipeline and when it moved, or None before the first plan."""
    cur.execute(Q["watermark"], {"pipeline": pipeline})
    return maybe(cur)


def rests(cur: cursor, pipeline: str) -> bool:
    """Returns True if a person has paused or forgotten the pipeline: its time does not go on then."""
    cur.execute(Q["rests"], {"pipeline": pipeline})
    row = maybe(cur)
    return bool(row and row.rests)


def ledger_clock(cur: cursor) -> datetime:
    """Returns the database's time."""
    cur.execute(Q["clock"])
    now: datetime = one(cur).now
    return now


def lock_open_streams(cur: cursor, pipeline: str) -> list[Any]:
    """Locks the open streams of a pipeline, in their one order. Returns each with its log and position."""
    cur.execute(Q["lock_streams"], {"pipeline": pipeline})
    return every(cur)


def keep_idle(cur: cursor, streams: Collection[int], moment: datetime) -> None:
    """Keeps the moment at which the log had nothing behind the position of these streams."""
    cur.execute(Q["keep_idle"], {"streams": list(streams), "moment": moment})
