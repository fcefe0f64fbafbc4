"""Plans: reads the broker, locks the pipeline, decides, records. No Spark, no network inside the transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.adapters.processes import is_gone
from lockstep.core.changes.promotion import not_deployed
from lockstep.core.errors import LockTimeout, Refusal
from lockstep.core.pipeline.names import topic_words
from lockstep.core.planning.decisions import Blocked, Busy, Decision, Done, Resume, Situation, Start
from lockstep.core.planning.live import decide
from lockstep.core.states import Lane
from lockstep.faults import reach
from lockstep.ledger.batch import plan as ledger
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.batch.streams import open_streams
from lockstep.ledger.changes import owners, promotions
from lockstep.ledger.windows.times import begin_event_time
from lockstep.steps.batch.one_log import keep_epochs, look
from lockstep.steps.topics.open_topics import first_starts, require_topics, with_new_streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import LogView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.decisions import Caller, Unfinished
    from lockstep.steps.batch.one_log import Look
    from lockstep.steps.topics.open_topics import Starts

SECONDS_BETWEEN_READINGS = 0.3
MOST_READINGS = 10
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Planned:
    """The decision of a plan, and the batch that it is about."""

    decision: Decision
    batch_id: int | None


def plan(
    conn: connection, broker: Broker, folder: PipelineFolder, caller: Caller, now: datetime, *, dry_run: bool = False
) -> Planned:
    """Returns the decision for this caller. For Start it has recorded the batch, its claims and the caller's key.

    A Blocked that rests on the broker's word is believed only when readings taken one after another agree (T6).
    """

    def decide_on(view: LogView) -> Planned | None:
        with transaction(conn, READER) as cur:
            streams = open_streams(cur, folder.pipeline.name)
            require_topics(cur, folder.pipeline, view)
            view = with_archive(cur, folder.pipeline, view)
        seen = look(conn, broker, streams, view)
        starts = first_starts(broker, folder.pipeline, view, streams, now)
        return _decide_under_lock(conn, folder, caller, view, seen, starts, dry_run=dry_run)

    return settled(broker, folder.pipeline, decide_on)


def settled(broker: Broker, pipeline: Pipeline, decide_on: Callable[[LogView], Planned | None]) -> Planned:
    """Returns the decision on a fresh view of the broker.

    Decides again after a None, and after a Blocked until enough readings agree.
    """
    last: Planned | None = None
    agreeing = 0
    for _ in range(MOST_READINGS):
        view = read_topics(broker, pipeline)
        try:
            planned = decide_on(view)
        except LockTimeout:
            return Planned(Busy(None, f"{pipeline.name}: another planner holds the pipeline"), None)
        if planned is None:
            continue
        agreeing = agreeing + 1 if planned == last else 1
        if not isinstance(planned.decision, Blocked) or agreeing >= planned.decision.readings:
            return planned
        last = planned
        time.sleep(SECONDS_BETWEEN_READINGS)
    raise Refusal(
        f"{pipeline.name}: the broker's answers about {topic_words(pipeline.topic)} keep changing",
        next_command=f"lockstep status {pipeline.name}",
    )


def held_now(batches: Iterable[Unfinished]) -> list[Unfinished]:
    """Returns the batches with their current leases.

    A lease is over if its holder was a process of this host, and is gone.
    """
    return [replace(b, lease_is_live=b.lease_is_live and not is_gone(b.owner)) for b in batches]


def _decide_under_lock(
    conn: connection,
    folder: PipelineFolder,
    caller: Caller,
    view: LogView,
    seen: Look,
    starts: Starts,
    *,
    dry_run: bool,
) -> Planned | None:
    pipeline = folder.pipeline
    with transaction(conn, PLANNER) as cur:
        paused = ledger.lock_pipeline(cur, pipeline.name)
        reach("plan.locked")
        call = ledger.batch_of_key(cur, pipeline.name, caller.key)
        held = held_now(ledger.unfinished_batches(cur, pipeline.name, caller.key))
        unfinished = next((batch for batch in held if batch.lane == Lane.LIVE), None)
        streams = open_streams(cur, pipeline.name)  # later than the unfinished batch, on purpose (T6)
        if seen.is_stale(streams, view):
            return None
        broken = seen.blocked(pipeline.name, streams)
        keep_epochs(cur, streams, view)
        batch_id = unfinished.batch_id if unfinished else None
        bound_by = tuple(ledger.last_documents(cur, pipeline.name, batch_id))
        refused = None
        if not unfinished and not paused and not broken:
            streams, refused = with_new_streams(cur, pipeline, view, streams, starts, caller.owner, bound_by)
        situation = Situation(
            view=view,
            streams=streams,
            unfinished=unfinished,
            call=call,
            pause=ledger.pause_reason(cur, pipeline.name) if paused else None,
            pace=ledger.recent_pace(cur, pipeline.name, pipeline.limits),
            failures=ledger.data_failures(cur, batch_id, folder.content_hash()),
            bound_by=bound_by,
            broken=broken,
            not_deployed=not_deployed(
                pipeline.name, promotions.promotion_in_force(cur, pipeline.name), folder.transform
            ),
            refused_topic=refused,
        )
        decision = of_owner(cur, pipeline, decide(pipeline, situation, caller))
        if isinstance(decision, Resume):
            keep_epochs(cur, streams, view, resumed=decision.batch_id)
        planned = _record(cur, pipeline, decision, caller)
        if dry_run or broken or isinstance(planned.decision, Busy | Blocked):
            conn.rollback()
    reach("plan.committed")
    return planned


def of_owner(cur: cursor, pipeline: Pipeline, decision: D) -> D | Blocked:
    """Records the pipeline as the owner of its tables and returns the decision.

    Returns Blocked if another pipeline owns one.
    """
    found = owners.own(cur, pipeline) if isinstance(decision, Start | Resume) else None
    return Blocked(found.reason, found.next_command) if found else decision


def _record(cur: cursor, pipeline: Pipeline, decision: Decision, caller: Caller) -> Planned:
    match decision:
        case Start(ranges):
            begin_event_time(cur, pipeline)
            batch_id = ledger.insert_live_batch(cur, pipeline.name, caller, ranges)
            if batch_id is None:
                return Planned(Busy(None, f"{pipeline.name}: another batch has taken these offsets meanwhile"), None)
            reach("plan.ranges_written")
        case Resume(batch_id):
            ledger.take_lease(cur, batch_id, caller)
        case Done(batch_id) | Busy(batch_id):
            return Planned(decision, batch_id)
        case _:
            return Planned(decision, None)
    if caller.key is not None:
        ledger.insert_call(cur, pipeline.name, caller.key, batch_id)
    return Planned(decision, batch_id)
