"""Resolves the bounds that a person writes to offsets, by the broker and the ledger, stream by stream."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange, StreamRange, TopicViews
from lockstep.core.planning.bounds import AtBatch, AtOffsets, AtTime
from lockstep.ledger.batch.streams import insert_boundary, open_streams
from lockstep.ledger.changes import requests
from lockstep.steps.inspect.archived_records import first_held

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import LogView, Stream, TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.planning.bounds import Bound

CLOCK_GRACE = timedelta(minutes=1)  # the clocks of brokers and of this machine differ by less


def edge(
    conn: connection, broker: Broker, pipeline: Pipeline, view: TopicView, at: Bound, now: datetime, *, is_end: bool
) -> dict[int, int]:
    """Returns the offset of a bound, per partition that the bound names."""
    match at:
        case AtOffsets(offsets):
            if strangers := offsets.keys() - view.bounds.keys():
                raise Refusal(
                    f"{view.topic} has no partition {min(strangers)}",
                    next_command=f"lockstep status {pipeline.name}",
                )
            return dict(offsets)
        case AtTime(moment):
            return _resolved(conn, broker, pipeline, view, moment, now)
        case AtBatch(batch_id):
            with transaction(conn, READER) as cur:
                rows = requests.ranges_of_batches(cur, pipeline.name, [batch_id])
                today = {stream.stream_id for stream in requests.log_streams(cur, pipeline.name, view)}
            found = [row for row in rows if row.stream_id in today]
            if not found:
                what = "read another log, which is gone" if rows else f"is no batch of {pipeline.name}"
                raise Refusal(f"batch {batch_id} {what}", next_command=f"lockstep batches {pipeline.name}")
            return {row.partition: row.until_offset if is_end else row.from_offset for row in found}


def streams_of_log(
    cur: cursor, pipeline: Pipeline, view: LogView, partition: int | None, topic: str | None = None
) -> tuple[Stream, ...]:
    """Returns every stream of today's logs, including those that growth has closed: of all topics, or of one.

    Refuses while a log is not the same. A topic that is gone has none. A partition of several topics needs its topic.
    """
    if partition is not None and isinstance(view, TopicViews):
        pipeline.one_topic(topic)
    opened = open_streams(cur, pipeline.name)
    if not opened:
        raise Refusal(f"{pipeline.name}: nothing was planned yet", next_command=f"lockstep run {pipeline.name}")
    logs = {view.log_of(each.topic) for each in view.topics}
    topics = {each.topic for each in view.topics}
    other = next((s for s in opened if s.topic_partition.topic in topics and s.log not in logs), None)
    if other is not None:
        raise Refusal(
            f"{other.topic_partition}: the log is not the same any more: what was read below offset {other.position} "
            "is not in it",
            next_command=f"lockstep retire {pipeline.name}{view.option(other.topic_partition.topic)} --reason ...",
        )
    meant = [each for each in view.topics if topic in {None, each.topic}] or _refuse_strange_topic(
        pipeline, view, topic
    )
    streams = tuple(s for each in meant for s in requests.log_streams(cur, pipeline.name, each))
    if partition is not None and partition not in {s.partition for s in streams}:
        known = ", ".join(map(str, sorted({s.partition for s in streams})))
        raise Refusal(
            f"{pipeline.name}: partition {partition} has no stream; there are: {known}",
            next_command=f"lockstep status {pipeline.name}",
        )
    return tuple(s for s in streams if partition in {None, s.partition} and view.get(s.topic_partition))


def topics_meant(
    conn: connection,
    pipeline: Pipeline,
    seen: LogView,
    topic: str | None,
    *,
    by_offsets: bool,
    at: Bound | None = None,
) -> list[TopicView]:
    """Returns the topics that a request is about: the named one, or all of them.

    Refuses offsets by partition without a topic where there are several. Of a batch, the topics that it has read.
    """
    if topic is not None:
        found = [each for each in seen.topics if each.topic == topic]
        return found or _refuse_strange_topic(pipeline, seen, topic)
    if by_offsets:
        pipeline.one_topic(None)
    if isinstance(at, AtBatch) and len(seen.topics) > 1:
        with transaction(conn, READER) as cur:
            read = {row.stream_id for row in requests.ranges_of_batches(cur, pipeline.name, [at.batch_id])}
            of_batch = {
                each.topic
                for each in seen.topics
                if read & {stream.stream_id for stream in requests.log_streams(cur, pipeline.name, each)}
            }
        return [each for each in seen.topics if each.topic in of_batch] or list(seen.topics)
    return list(seen.topics)


def _refuse_strange_topic(pipeline: Pipeline, seen: LogView, topic: str | None) -> list[TopicView]:
    if topic is None:  # no topic is there at all
        return []
    raise Refusal(
        f"{pipeline.name}: it reads no topic {topic} now; there are: {', '.join(t.topic for t in seen.topics) or 'none'}",
        next_command=f"lockstep status {pipeline.name}",
    )


def passed_stretches(
    streams: Iterable[Stream], read_before: Mapping[int, int], begin: Mapping[int, int], end: Mapping[int, int]
) -> list[StreamRange]:
    """Returns the offsets within the bounds that each stream has passed.

    Offsets before the first start belong to a partition's first stream, as far as nobody has `read_before`.
    """
    found: list[StreamRange] = []
    seen = set()
    for stream in streams:
        p = stream.partition
        own = stream.start_offset if p in seen else read_before[stream.stream_id]
        seen.add(p)
        if p in begin and p in end and (low := max(begin[p], own)) < (high := min(end[p], stream.position)):
            found.append(StreamRange(stream.stream_id, OffsetRange(stream.topic_partition, low, high)))
    return found


def _resolved(
    conn: connection, broker: Broker, pipeline: Pipeline, view: TopicView, moment: datetime, now: datetime
) -> dict[int, int]:
    """Returns a time's offsets.

    Resolves them once, when no earlier record can come any more. From then on, every caller gets the same ones (T13).
    """
    held = first_held(conn, broker, pipeline, view, moment)
    found = {at.partition: offset for at, (offset, _) in held.items()}
    if moment + CLOCK_GRACE > now:
        return found
    resolved = {}
    with transaction(conn, PLANNER) as cur:
        for stream in requests.log_streams(cur, pipeline.name, view):
            if stream.partition in found:
                known = requests.boundary(cur, stream.stream_id, moment)
                offset = found[stream.partition] if known is None else known
                insert_boundary(cur, stream.stream_id, moment, offset)
                resolved[stream.partition] = offset
    return found | resolved
