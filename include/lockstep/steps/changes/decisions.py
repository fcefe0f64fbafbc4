"""Records a person's decisions: pause, abandon, accept a loss.

Each is one transaction under the pipeline's lock, and leaves a row.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.errors import LockTimeout, Refusal
from lockstep.core.offsets import OffsetRange, StreamRange
from lockstep.core.states import BatchState, CoverageKind, Lane
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.batch.plan import last_documents, lock_pipeline, unfinished_batches
from lockstep.ledger.batch.streams import open_streams
from lockstep.ledger.changes import decisions, requests
from lockstep.steps.topics.open_topics import with_new_streams

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import Bounds, LogView, Stream, TopicPartition
    from lockstep.core.pipeline.definition import Pipeline


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets accepted as lost, the position behind them, and the batches that were abandoned for it.

    `changed` is False when this very loss had been accepted before.
    """

    offsets: OffsetRange
    position: int
    abandoned: tuple[int, ...]
    changed: bool = True


def pause(conn: connection, pipeline: str, person: Person) -> bool:
    """Stops new batches. An unfinished one may still be finished. Returns False if it was paused already."""
    return _switch(conn, pipeline, person, paused=True)


def unpause(conn: connection, pipeline: str, person: Person) -> bool:
    """Allows new batches again. Returns False if nothing was paused."""
    return _switch(conn, pipeline, person, paused=False)


def abandon(conn: connection, batch_id: int, person: Person) -> bool:
    """Ends an unfinished batch without a commit, and its request with it. Frees its offsets.

    Returns False if it was abandoned already.
    """
    with transaction(conn, READER) as cur:
        pipeline = decisions.pipeline_of_batch(cur, batch_id)
    if pipeline is None:
        raise Refusal(f"the ledger has no batch {batch_id}", next_command="lockstep batches NAME")
    with deciding(conn, pipeline) as cur:
        (batch,) = decisions.lock_batches(cur, [batch_id])
        if batch.state == BatchState.COMMITTED:
            raise Refusal(
                f"batch {batch_id} of {pipeline} was committed by attempt {batch.token}; what is committed stays",
                next_command=f"lockstep batch {batch_id}",
            )
        if batch.state == BatchState.ABANDONED:
            return False
        decisions.abandon_batches(cur, [batch_id], _said(person))
        requests.close_requests_of(cur, batches=[batch_id])
        decisions.release_claims(cur, [batch_id])
        decisions.record(cur, pipeline, "abandon", person, {"batch_id": batch_id})
    return True


def accept_loss(conn: connection, broker: Broker, pipeline: Pipeline, lost: OffsetRange, person: Person) -> Loss:
    """Records offsets that the log has deleted as lost and moves the position behind them (T8).

    They must begin at the position or lie in skipped offsets. They must end at or below log start, because offsets that
    can still be read are not lost.
    """
    where = lost.topic_partition
    partition = where.partition
    view = (
        broker.view(where.topic) if isinstance(pipeline.topic, str) else broker.topic_views([where.topic])
    )  # before the transaction, never inside (T6). A log's start only grows.
    with deciding(conn, pipeline.name) as cur:
        view = with_archive(cur, pipeline, view)
        stream = stream_of(_with_grown(cur, pipeline, view, where, person), pipeline, where)
        refuse_another_log(stream, pipeline, view.log_of(where.topic))
        if (bounds := view.get(where)) is None:
            raise Refusal(
                f"{stream.topic_partition}: the partition is gone; its position is {stream.position}",
                next_command=f"lockstep retire {pipeline.name}{view.option(where.topic)} --partition {partition} --reason ...",
            )
        if lost.from_offset < stream.start_offset:  # an older stream of the same log has skipped them
            older = [s for each in view.topics for s in requests.log_streams(cur, pipeline.name, each)]
            stream = next((s for s in older if s.partition == partition and lost.from_offset < s.position), stream)
        item = StreamRange(stream.stream_id, lost)
        abandoned = lock_and_abandon(
            cur, decisions.claiming(cur, [stream.stream_id], lost.from_offset, lost.until_offset), person
        )
        position = decisions.lock_streams(cur, [stream.stream_id])[stream.stream_id]
        coverage = decisions.coverage_within(cur, item)
        if not abandoned and _all_of_kind(CoverageKind.LOSS, coverage, lost.from_offset, lost.until_offset):
            return Loss(lost, position, (), changed=False)
        _refuse_what_is_not_lost(pipeline, lost, position, bounds, coverage)
        decisions.release_claims(cur, abandoned)
        decisions.record_loss(cur, pipeline.name, person, item, position, abandoned)
    return Loss(lost, max(position, lost.until_offset), tuple(abandoned))


def _with_grown(
    cur: Any, pipeline: Pipeline, view: LogView, where: TopicPartition, person: Person
) -> tuple[Stream, ...]:
    """Returns the open streams, with those of a new topic or new partitions.

    A plan that is blocked by the loss of a new partition has opened no stream for it.
    """
    streams = open_streams(cur, pipeline.name)
    if not streams or view.get(where) is None or any(stream.topic_partition == where for stream in streams):
        return streams
    if any(batch.lane == Lane.LIVE for batch in unfinished_batches(cur, pipeline.name, None)):
        raise Refusal(
            f"{pipeline.name}: partition {where.partition} is new, and a batch of the other partitions is unfinished",
            next_command=f"lockstep run {pipeline.name}",
        )
    starts = {} if isinstance(pipeline.topic, str) else {t.topic: dict.fromkeys(t.bounds, 0) for t in view.topics}
    bound_by = last_documents(cur, pipeline.name, None)
    return with_new_streams(cur, pipeline, view, streams, starts, person.who, bound_by)[0]


@contextmanager
def deciding(conn: connection, pipeline: str, *, even_forgotten: bool = False) -> Iterator[Any]:
    """Opens the planner's transaction with the pipeline's row lock taken. Every decision is made in it."""
    try:
        with transaction(conn, PLANNER) as cur:
            lock_pipeline(cur, pipeline, even_forgotten=even_forgotten)
            yield cur
    except LockTimeout:
        raise LockTimeout(
            f"{pipeline}: a plan or a commit is under way and holds what this decides about; nothing was changed",
            next_command=f"lockstep status {pipeline}, then again",
        ) from None


def lock_and_abandon(cur: Any, batches: Sequence[int], person: Person) -> list[int]:
    """Locks the batches by id, looks at their state again, and abandons those that are still planned."""
    planned = [row.batch_id for row in decisions.lock_batches(cur, batches) if row.state == BatchState.PLANNED]
    decisions.abandon_batches(cur, planned, _said(person))
    return planned


def stream_of(streams: Sequence[Stream], pipeline: Pipeline, where: TopicPartition) -> Stream:
    """Returns the open stream of a partition. Raises `Refusal` if there is none."""
    for stream in streams:
        if stream.topic_partition == where:
            return stream
    several = bool(pipeline.topic_option(where.topic))
    known = ", ".join(str(s.topic_partition) if several else str(s.partition) for s in streams) or "none yet"
    raise Refusal(
        f"{pipeline.name}: partition {where if several else where.partition} has no open stream; there are: {known}",
        next_command=f"lockstep status {pipeline.name}",
    )


def refuse_another_log(stream: Stream, pipeline: Pipeline, log: tuple[str, str, str] | None) -> None:
    """Refuses offsets of another cluster or topic, because they say nothing about this stream."""
    if stream.log != log:
        raise Refusal(
            f"{stream.topic_partition}: the log is not the same any more (topic id {stream.topic_id}, now {log and log[2]}); "
            f"its position {stream.position} means nothing there",
            next_command=f"lockstep retire {pipeline.name}{pipeline.topic_option(stream.topic_partition.topic)} --reason ...",
        )


def _said(person: Person) -> str:
    return f"abandoned by {person.who}: {person.why}"


def _switch(conn: connection, pipeline: str, person: Person, *, paused: bool) -> bool:
    with deciding(conn, pipeline) as cur:
        changed = decisions.set_paused(cur, pipeline, paused=paused)
        if changed:
            decisions.record(cur, pipeline, "pause" if paused else "unpause", person)
    return changed


def _all_of_kind(kind: CoverageKind, coverage: Sequence[Any], begin: int, end: int) -> bool:
    """Returns True if coverage of this kind alone covers [begin, end), end to end, or if that is empty."""
    reached = begin
    for row in coverage:
        if reached >= end:
            break
        if row.kind != kind or row.from_offset > reached:
            return False
        reached = row.until_offset
    return reached >= end


def _refuse_what_is_not_lost(
    pipeline: Pipeline, lost: OffsetRange, position: int, bounds: Bounds, coverage: Sequence[Any]
) -> None:
    log_start = bounds.log_start
    held = bounds.held_within(lost.from_offset, min(lost.until_offset, log_start))
    passed = lost.from_offset <= position and _all_of_kind(
        CoverageKind.SKIPPED, coverage, lost.from_offset, min(lost.until_offset, position)
    )
    if passed and lost.until_offset <= log_start and not held:
        return
    if lost.from_offset > position:
        why = f"the position is {position}, and what lies between would stay open"
    elif not passed:
        why = f"the position is {position}, and what lies below it is covered"
    elif held:
        why = f"the archive holds [{held[0][0]}, {held[0][1]}), which can still be read"
    else:
        why = f"the log starts at {log_start}, and what it holds can still be read"
    name, where = pipeline.name, lost.topic_partition
    begin, until = bounds.gap(position) or (position, position)
    options = f"{pipeline.topic_option(where.topic)} --partition {where.partition}".strip()
    options += f" --from {begin} --until {until} --reason ..."
    is_next = begin == position < until
    raise Refusal(
        f"{lost} is not what was lost: {why}",
        next_command=f"lockstep accept-loss {name} {options}" if is_next else f"lockstep run {name}",
    )
