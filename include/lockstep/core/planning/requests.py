"""Decides the next step of a fill or replay request, from its bounds and what is left of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.planning.batch_size import because
from lockstep.core.planning.blocked import another_log, changed_definition, topic_left_out
from lockstep.core.planning.decisions import NO_PACE, Blocked, Busy, GiveUp, Idle, Pace, Resume, Start, go_on_command
from lockstep.core.planning.lanes import next_pieces, ranges_of
from lockstep.core.planning.live import about_unfinished

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.offsets import LogView, Stream, StreamRange
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.planning.decisions import Caller, Decision, Unfinished
    from lockstep.core.planning.lanes import Piece
    from lockstep.core.states import Lane, WorkState

TIMES_GIVEN_UP = 3


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of the Spark half of a run. For a refusal, `reason` is the line by which an error names itself."""

    state: WorkState
    reason: str
    next_command: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcome of a run's decision: a line on each stretch of offsets, or statement, and if anything was changed."""

    lines: list[str]
    changed: bool


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The difference that a preview has found, under code with this hash."""

    content_hash: str
    difference: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """A request to fill or replay `windows`. `token` is lower than that of any commit it still has to make.

    A preview has a rehearsal once it has ended. `goes_on` is False for the call that has opened the request. `left` are
    the offsets that a new fill has to read.
    """

    request_id: int
    pipeline: str
    lane: Lane
    token: int
    is_preview: bool
    is_closed: bool
    windows: tuple[StreamRange, ...]
    who: str
    why: str
    rehearsal: Rehearsal | None = None
    goes_on: bool = True
    left: tuple[StreamRange, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestSituation:
    """All facts that the next step of a request rests on, read under the pipeline's lock.

    `pieces` are what is left and free. `working` are the batches of others on the rest. `given_up` is how often a batch
    of this request was abandoned by itself, and the last reason.
    """

    request: Request
    view: LogView
    streams: tuple[Stream, ...]
    pieces: tuple[Piece, ...]
    own: Unfinished | None = None
    working: tuple[Unfinished, ...] = ()
    pause: str | None = None
    pace: Pace = NO_PACE
    failures: tuple[int, str | None] = (0, None)
    given_up: tuple[int, str | None] = (0, None)
    bound_by: tuple[Mapping[str, Any], ...] = ()
    mixes_partitions: bool = False
    broken: Blocked | None = None
    not_deployed: Blocked | None = None


def decide_request(pipeline: Pipeline, at: RequestSituation, caller: Caller) -> Decision | GiveUp:
    """Returns the decision for this caller about the request. Returns Idle if nothing of it is left."""
    if at.own:
        return trimmed(at.view, at.own) or about_unfinished(pipeline, at, at.own, caller)
    if not at.pieces and not at.working:
        return Idle(f"request {at.request.request_id} is complete")
    if at.pause:
        return Idle(at.pause)
    blocked = (
        at.not_deployed
        or changed_definition(pipeline, at.bound_by)
        or topic_left_out(pipeline, at.streams)
        or another_log(pipeline.name, at.streams, at.view)
        or at.broken
        or _given_up(pipeline.name, at, caller)
        or _cannot_read_again(pipeline.name, at)
    )
    if blocked:
        return blocked
    if not at.pieces:
        return _about_others(at, caller)
    pieces = next_pieces(pipeline.limits, at.pace, at.pieces, whole_batches=at.mixes_partitions)
    ranges = ranges_of(pieces)
    waiting = sum(piece.end - piece.begin for piece in at.pieces)
    return Start(ranges, pieces, because(pipeline.limits, at.pace, ranges, waiting))


def trimmed(view: LogView, batch: Unfinished) -> GiveUp | None:
    """Returns GiveUp for a batch whose records were deleted from the log. It can change nothing any more (T8)."""
    for item in batch.ranges:
        where = item.offsets.topic_partition
        bounds = view.get(where)
        if (
            bounds
            and batch.log_of(where.topic) == view.log_of(where.topic)
            and not bounds.holds(item.offsets.from_offset, item.offsets.until_offset)
        ):
            return GiveUp(batch.batch_id, f"{item.offsets}: the log now starts at {bounds.log_start}")
    return None


def _about_others(at: RequestSituation, caller: Caller) -> Decision | GiveUp:
    """Returns Busy while another caller works on all that is left. Otherwise lets this caller finish it (T4).

    A preview commits nothing, so it finishes no batch of another request: that batch may have committed ranges.
    """
    other = min(at.working, key=lambda batch: batch.batch_id)
    if other.lease_is_live and other.owner != caller.owner and not caller.take_over:
        return Busy(other.batch_id, f"batch {other.batch_id} of {other.owner} works on these offsets")
    if other.is_preview:
        return GiveUp(other.batch_id, "a preview that its process did not end", ends_request=True)
    return trimmed(at.view, other) or (_left_to(at.request, other) if at.request.is_preview else Resume(other.batch_id))


def _left_to(preview: Request, other: Unfinished) -> Blocked:
    name = preview.pipeline
    of = "live" if other.request_id is None else f"request {other.request_id}"
    return Blocked(
        f"{name}: batch {other.batch_id} ({of}) holds these offsets and is not finished: a preview is shown behind it",
        go_on_command(name, other.lane, other.request_id),
    )


def _given_up(name: str, at: RequestSituation, caller: Caller) -> Blocked | None:
    times, error = at.given_up
    if times < TIMES_GIVEN_UP or at.request.is_preview or caller.retry:
        return None
    return Blocked(
        f"{name}: request {at.request.request_id} was given up {times} times: {error}",
        f"{go_on_command(name, at.request.lane, at.request.request_id)} --retry",
    )


def _cannot_read_again(name: str, at: RequestSituation) -> Blocked | None:
    for piece in at.pieces:
        where = piece.item.offsets.topic_partition
        bounds = at.view[where]
        log_start = bounds.log_start
        if piece.owner is not None and not bounds.holds(piece.begin, piece.end):
            return Blocked(
                f"{piece.item.offsets}: batch {piece.owner} begins below the log's start {log_start}: "
                "a replay would delete rows that cannot be read again",
                f"lockstep replay {name}{at.view.option(where.topic)} --from {where.partition}:{max(piece.end, log_start)}",
            )
    return None
