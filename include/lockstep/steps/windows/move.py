"""Judges what a commit covers, and moves event time behind its positions, inside the commit's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.states import Lane
from lockstep.faults import reach
from lockstep.ledger.windows import times
from lockstep.targets.windows import see_events

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.staging import AttemptId


def judge_batch(cur: cursor, pipeline: Pipeline, batch_id: int) -> None:
    """Keeps the watermark that judges what the batch covers (E3, E4). Does nothing for a pipeline without windows."""
    if pipeline.windows:
        times.judge(cur, batch_id)
        reach("windows.judged")


def move_event_time(cur: cursor, pipeline: Pipeline, attempt: AttemptId, lane: Lane) -> None:
    """Moves the event time of a live batch's streams, and the watermark with them (E1, E2).

    Comes behind the positions. Does nothing in the other lanes, and for a pipeline without windows.
    """
    if lane != Lane.LIVE or not pipeline.windows or pipeline.event_time is None:
        return
    times.open_times(cur, pipeline.name)
    see_events(cur, attempt)
    times.raise_watermark(cur, pipeline.name, pipeline.event_time)
