"""Judges the events of a staged batch: finds those at no time that a window holds, and counts late ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import STAGER, transaction
from lockstep.core.pipeline.targets import Windows
from lockstep.core.states import Lane
from lockstep.ledger.batch import attempts
from lockstep.targets.rows import staged_rows
from lockstep.targets.windows import late_share, odd_events

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import EventTime, Pipeline
    from lockstep.core.pipeline.violations import Judgement
    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context

FEW_LATE = 1_000  # so many late rows refuse no batch, whatever their share


def judge_events(at: Context, pipeline: Pipeline, attempt: AttemptId, suite: Judgement) -> Judgement:
    """Returns the suite's judgement, and that of the events with it (E6). Changes nothing for a pipeline without windows.

    A record whose event is at no time that a window holds is put aside. With several targets it refuses the batch. So
    does too large a share of late rows, in the live lane.
    """
    if pipeline.event_time is None:
        return suite
    violators, refusals = dict(suite.violators), list(suite.refusals)
    with transaction(at.conn, STAGER) as cur:
        attempts.require_newest(cur, attempt)
        is_live = attempts.lane_of(cur, attempt.batch_id) == Lane.LIVE
        for place, target in enumerate(pipeline.targets):
            if not isinstance(target, Windows):
                continue
            rows = staged_rows(attempt, 0, place)
            odd = odd_events(cur, pipeline.event_time, rows)
            if odd and len(pipeline.targets) > 1:
                where = f"{odd[0].topic}-{odd[0].partition} offset {odd[0].offset}"
                refusals.append(_odd(pipeline.event_time, odd[0].moment, where))
            else:
                violators |= {
                    (row.stream_id, row.offset): _odd(pipeline.event_time, row.moment)
                    for row in odd
                    if (row.stream_id, row.offset) not in violators
                }
            if is_live:
                refusals += _too_late(target, *late_share(cur, target, pipeline.event_time, rows))
    return replace(suite, violators=violators, refusals=refusals)


def _odd(event_time: EventTime, moment: str | None, where: str = "") -> str:
    place = f" at {where}" if where else ""
    return (
        f"column {event_time.column}: the event{place} is at {moment or 'null'}, and windows hold the years 2 to 9989"
    )


def _too_late(target: Windows, rows: int, late: int) -> list[str]:
    if late <= FEW_LATE or late <= target.max_late_share * rows:
        return []
    told = (
        f"{target.table}: {late} of {rows} rows would be late, more than max_late_share {target.max_late_share:.0%}: "
        f"are lateness {target.lateness!r} and the event time's delay long enough?"
    )
    return [told]
