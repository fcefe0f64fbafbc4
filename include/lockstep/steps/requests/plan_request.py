"""Plans the next batch of a fill or replay. Works like `plan`, under the same lock, for offsets behind the position."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.changes.promotion import not_deployed
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.guarantees import commit_unit
from lockstep.core.planning.blocked import truncated
from lockstep.core.planning.decisions import Blocked, Busy, GiveUp, Idle, Resume, Start
from lockstep.core.planning.lanes import untaken
from lockstep.core.planning.requests import Request, RequestSituation, decide_request
from lockstep.core.states import BatchState, CommitUnit, Lane
from lockstep.faults import reach
from lockstep.ledger.batch import plan as ledger
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.batch.streams import open_streams
from lockstep.ledger.changes import decisions, promotions, requests
from lockstep.steps.batch.one_log import keep_epochs, look
from lockstep.steps.batch.plan import Planned, held_now, of_owner, settled

if TYPE_CHECKING:
    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import LogView, Stream
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.decisions import Caller, Decision
    from lockstep.core.planning.lanes import Piece
    from lockstep.steps.batch.one_log import Look


def plan_request(conn: connection, broker: Broker, folder: PipelineFolder, request_id: int, caller: Caller) -> Planned:
    """Returns the decision for this caller and request. For Start it has recorded the batch and what it replaces.

    Idle closes the request when nothing of it is left. A batch whose records were deleted meanwhile is abandoned here.
    """

    def decide_on(view: LogView) -> Planned | None:
        with transaction(conn, READER) as cur:
            streams = open_streams(cur, folder.pipeline.name)
            view = with_archive(cur, folder.pipeline, view)
        seen = look(conn, broker, streams, view)
        return _decide_under_lock(conn, folder, request_id, caller, view, seen)

    return settled(broker, folder.pipeline, decide_on)


def give_up(cur: cursor, batch_id: int, reason: str) -> None:
    """Abandons a batch of a fill or replay. It has changed nothing, and its offsets are free again (T8)."""
    if any(row.state == BatchState.PLANNED for row in decisions.lock_batches(cur, [batch_id])):
        decisions.abandon_batches(cur, [batch_id], f"given up: {reason}")
        decisions.release_claims(cur, [batch_id])


def mixes_partitions(folder: PipelineFolder) -> bool:
    """Returns True if rows of one partition may come from records of another.

    A transform counts as one that does so (T10). It cannot if tasks commit range by range.
    """
    return folder.transform is not None and commit_unit(folder.pipeline.guarantee) == CommitUnit.BATCH


def asked_for(cur: cursor, request_id: int, pipeline: str) -> Request:
    """Returns the request. Raises `Refusal` if it is not this pipeline's."""
    asked = requests.read_request(cur, request_id)
    if asked is None or asked.pipeline != pipeline:
        raise Refusal(f"{pipeline} has no request {request_id}", next_command=f"lockstep status {pipeline}")
    return asked


def _decide_under_lock(
    conn: connection, folder: PipelineFolder, request_id: int, caller: Caller, view: LogView, seen: Look
) -> Planned | None:
    with transaction(conn, PLANNER) as cur:
        paused = ledger.lock_pipeline(cur, folder.pipeline.name)
        reach("plan.locked")
        streams = open_streams(cur, folder.pipeline.name)
        if seen.is_stale(streams, view):
            return None
        broken = truncated(folder.pipeline.name, streams, view) or seen.blocked(folder.pipeline.name, streams)
        keep_epochs(cur, () if broken else streams, view)
        at = replace(_situation(cur, folder, request_id, caller, view, paused=paused), broken=broken)
        decision = of_owner(cur, folder.pipeline, decide_request(folder.pipeline, at, caller))
        if isinstance(decision, GiveUp):
            give_up(cur, decision.batch_id, decision.reason)
            if decision.ends_request:
                requests.close_requests_of(cur, batches=[decision.batch_id])
            return None
        planned = _record(cur, at.request, decision, caller)
        if isinstance(planned.decision, Idle) and not (at.pieces or at.working):
            requests.close_request(cur, request_id)
        if isinstance(planned.decision, Busy | Blocked):
            conn.rollback()
    reach("plan.committed")
    return planned


def _situation(
    cur: cursor, folder: PipelineFolder, request_id: int, caller: Caller, view: LogView, *, paused: bool
) -> RequestSituation:
    """Reads unfinished batches and claims first. Reads the coverage after them, each in a later statement (T6)."""
    pipeline = folder.pipeline.name
    asked = asked_for(cur, request_id, pipeline)
    unfinished = {batch.batch_id: batch for batch in held_now(ledger.unfinished_batches(cur, pipeline, caller.key))}
    own = next((batch for batch in unfinished.values() if batch.request_id == request_id), None)
    taken = requests.taken_offsets(cur, request_id)
    streams = requests.request_streams(cur, request_id)
    mixes = mixes_partitions(folder)
    left = () if asked.is_closed else _left(cur, asked, streams, view, whole_batches=mixes)
    pieces, by = untaken(left, taken, whole_batches=mixes)
    batch_id = own.batch_id if own else None
    promotion = None if asked.is_preview else promotions.promotion_in_force(cur, pipeline)  # a preview commits nothing
    return RequestSituation(
        request=asked,
        view=view,
        streams=streams,
        pieces=pieces,
        own=own,
        working=tuple(unfinished[other] for other in sorted(by) if other in unfinished),
        pause=ledger.pause_reason(cur, pipeline) if paused else None,
        pace=ledger.recent_pace(cur, pipeline, folder.pipeline.limits),
        failures=ledger.data_failures(cur, batch_id, folder.content_hash()),
        given_up=requests.given_up(cur, request_id),
        bound_by=tuple(ledger.last_documents(cur, pipeline, batch_id)),
        mixes_partitions=mixes,
        not_deployed=not_deployed(pipeline, promotion, folder.transform),
    )


def _left(
    cur: cursor, asked: Request, streams: tuple[Stream, ...], view: LogView, *, whole_batches: bool
) -> tuple[Piece, ...]:
    if asked.lane == Lane.REPLAY:
        return requests.due_whole(cur, asked.request_id) if whole_batches else requests.due(cur, asked.request_id)
    return requests.free(cur, asked.request_id, {s.stream_id: view.get(s.topic_partition) for s in streams})


def _record(cur: cursor, asked: Request, decision: Decision, caller: Caller) -> Planned:
    match decision:
        case Start(ranges, pieces):
            batch_id = requests.insert_request_batch(cur, asked, caller, ranges, pieces)
            if batch_id is None:
                return Planned(Busy(None, f"{asked.pipeline}: another batch has taken these offsets meanwhile"), None)
            reach("plan.ranges_written")
            return Planned(decision, batch_id)
        case Resume(batch_id):
            ledger.take_lease(cur, batch_id, caller)
            return Planned(decision, batch_id)
        case Busy(batch_id):
            return Planned(decision, batch_id)
        case _:
            return Planned(decision, None)
