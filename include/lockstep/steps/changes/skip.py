"""Moves the live position forward. Skipped offsets stay to be filled (T17)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import PositionMoved, Refusal
from lockstep.core.offsets import OffsetRange, StreamRange
from lockstep.core.planning.bounds import AtOffsets
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.batch.streams import open_streams
from lockstep.ledger.changes import decisions
from lockstep.ledger.changes.requests import segments_within
from lockstep.steps.batch.one_log import keep_epochs, look
from lockstep.steps.changes.decisions import deciding, lock_and_abandon, refuse_another_log
from lockstep.steps.requests.edges import edge, topics_meant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import Stream, TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.planning.bounds import Bound


@dataclass(frozen=True, slots=True)
class Skipped:
    """The offsets that were left to be filled, and the batches abandoned for it. There are none when nothing moved."""

    ranges: tuple[StreamRange, ...]
    abandoned: tuple[int, ...]


def skip(
    conn: connection,
    broker: Broker,
    pipeline: Pipeline,
    to: Bound | None,
    person: Person,
    now: datetime,
    topic: str | None = None,
) -> Skipped:
    """Moves the live position of one topic forward to a bound, or with None to the log's stable end.

    Abandons batches that work there. Raises `Refusal` when a position would go back, past the stable end, or over
    offsets that are lost already.
    """
    with transaction(conn, READER) as cur:
        every = open_streams(cur, pipeline.name)
    whole = read_topics(broker, pipeline)  # read after the positions, so that it is never older than they are
    with transaction(conn, READER) as cur:
        whole = with_archive(cur, pipeline, whole)
    (view,) = topics_meant(conn, pipeline, whole, topic, by_offsets=True)
    before = [stream for stream in every if stream.topic_partition.topic == view.topic]
    if not before:
        raise Refusal(f"{pipeline.name}: nothing was planned yet", next_command=f"lockstep plan {pipeline.name}")
    for stream in before:
        refuse_another_log(stream, pipeline, (view.cluster_id, view.topic, view.topic_id))
    seen = look(conn, broker, before, view)
    if broken := seen.blocked(pipeline.name, before):
        raise Refusal(broken.reason, next_command=broken.next_command)
    goals = {p: bounds.stable_end for p, bounds in view.bounds.items()}
    if to is not None:
        goals = edge(conn, broker, pipeline, view, to, now, is_end=False)
    streams = [stream for stream in before if stream.partition in goals]
    ids = [stream.stream_id for stream in streams]
    with deciding(conn, pipeline.name) as cur:
        abandoned = lock_and_abandon(cur, _in_the_way(cur, streams, goals), person)
        positions = decisions.lock_streams(cur, ids)
        if seen.is_stale(open_streams(cur, pipeline.name), view):
            raise PositionMoved(
                f"{pipeline.name}: its streams moved while the broker was asked; nothing was changed",
                next_command=f"lockstep status {pipeline.name}, then again",
            )
        keep_epochs(cur, streams, view)
        if isinstance(to, AtOffsets):
            _refuse_backward(cur, pipeline, streams, positions, goals)
        ranges = _ranges(pipeline, streams, positions, goals, view)
        decisions.release_claims(cur, abandoned)
        for item in ranges:
            decisions.insert_skip(cur, item)
            detail = {
                "stream_id": item.stream_id,
                "topic": view.topic,
                "partition": item.offsets.topic_partition.partition,
                "from_offset": item.offsets.from_offset,
                "until_offset": item.offsets.until_offset,
                "abandoned": abandoned,
            }
            decisions.record(cur, pipeline.name, "skip", person, detail)
    return Skipped(tuple(ranges), tuple(abandoned))


def _in_the_way(cur: Any, streams: Sequence[Stream], goals: Mapping[int, int]) -> list[int]:
    """Returns the unfinished batches that work on offsets which are to be skipped."""
    found: set[int] = set()
    for stream in streams:
        if stream.position < goals[stream.partition]:
            found |= set(decisions.claiming(cur, [stream.stream_id], stream.position, goals[stream.partition]))
    return sorted(found)


def _refuse_backward(
    cur: Any, pipeline: Pipeline, streams: Sequence[Stream], positions: Mapping[int, int], goals: Mapping[int, int]
) -> None:
    for stream in streams:
        at, position, goal = stream.topic_partition, positions[stream.stream_id], goals[stream.partition]
        if goal < position:
            named, begin = f"{pipeline.name}{pipeline.topic_option(at.topic)}", f"{at.partition}:{goal}"
            # A batch's offsets are replayed. Offsets that no batch has are filled.
            is_a_batchs = segments_within(cur, StreamRange(stream.stream_id, OffsetRange(at, goal, goal + 1)))
            raise Refusal(
                f"{at}: the position is {position}, and skip only goes forward",
                next_command=f"lockstep replay {named} --from {begin}"
                if is_a_batchs
                else f"lockstep fill {named} --from {begin}",
            )


def _ranges(
    pipeline: Pipeline,
    streams: Sequence[Stream],
    positions: Mapping[int, int],
    goals: Mapping[int, int],
    view: TopicView,
) -> list[StreamRange]:
    ranges = []
    option = pipeline.topic_option(view.topic)
    for stream in streams:
        bounds, position, goal = view.bounds[stream.partition], positions[stream.stream_id], goals[stream.partition]
        if goal > bounds.stable_end:
            raise Refusal(
                f"{stream.topic_partition}: {goal} lies past the stable end {bounds.stable_end}",
                next_command=f"lockstep skip {pipeline.name}{option} --to latest --reason ...",
            )
        gap = bounds.gap(position)
        if gap and gap[0] < max(goal, position + 1):
            raise Refusal(
                f"{stream.topic_partition}: offsets [{gap[0]}, {gap[1]}) cannot be read any more: they are lost, not skipped",
                next_command=f"lockstep accept-loss {pipeline.name}{option} --partition {stream.partition} "
                f"--from {gap[0]} --until {gap[1]} --reason ..."
                if gap[0] == position
                else f"lockstep skip {pipeline.name}{option} --to {stream.partition}:{gap[0]} --reason ...",
            )
        if position < goal:
            ranges.append(StreamRange(stream.stream_id, OffsetRange(stream.topic_partition, position, goal)))
    return ranges
