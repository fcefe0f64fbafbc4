"""Opens the streams of a pipeline's topics: at the first plan, and when a topic appears, is named or grows."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from lockstep.core.changes.adoption import named_starts
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.names import has_appeared, topic_words
from lockstep.core.pipeline.schedule import start_of
from lockstep.core.planning.blocked import topic_moved, topic_refused
from lockstep.core.planning.bounds import AtOffsets, first_offsets
from lockstep.ledger.batch.streams import (
    ends_of_topics,
    grow,
    insert_boundary,
    insert_topics,
    open_streams,
    open_streams_of_topics,
    topics_ever,
    topics_left,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from psycopg2.extensions import cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import LogView, Stream, TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.planning.decisions import Blocked

    Starts = Mapping[str, Mapping[int, int]]


def first_starts(broker: Broker, pipeline: Pipeline, view: LogView, streams: Iterable[Stream], now: datetime) -> Starts:
    """Returns where each topic without an open stream would begin, by the pipeline's start.

    Sends its requests before any lock is taken.
    """
    known = {stream.topic_partition.topic for stream in streams}
    if known and isinstance(pipeline.topic, str):
        return {}
    return {each.topic: _first_starts(broker, pipeline, each, now) for each in view.topics if each.topic not in known}


def with_new_streams(
    cur: cursor,
    pipeline: Pipeline,
    view: LogView,
    streams: tuple[Stream, ...],
    starts: Starts,
    who: str,
    bound_by: Iterable[Mapping[str, Any]],
) -> tuple[tuple[Stream, ...], Blocked | None]:
    """Opens the streams on the first plan, those of new topics, and a new epoch when a topic has grown.

    A topic that has appeared is read from offset 0. A topic that a definition names anew begins at the pipeline's start. A
    topic that was left goes on where it ended, if it is the same log. Returns the open streams, and Blocked for a topic
    that the definition refuses.
    """
    known = {stream.topic_partition.topic for stream in streams}
    new = [each for each in view.topics if each.topic in starts and each.topic not in known]
    begin = {each.topic: dict(starts[each.topic]) for each in new}
    ended = ends_of_topics(cur, pipeline.name, new) if streams and new else {each.topic: {} for each in new}
    appeared = [topic for topic in begin if streams and not ended[topic] and has_appeared(topic, bound_by)]
    left = topics_left(cur, pipeline.name, [each.topic for each in new]) if streams and new else {}
    if refused := topic_refused(pipeline, appeared) or topic_moved(pipeline.name, left):
        return streams, refused
    for each in new:
        if each.topic in appeared or ended[each.topic]:
            begin[each.topic] = dict.fromkeys(each.bounds, 0) | ended[each.topic]
    if new and not isinstance(pipeline.topic, str):
        why = "topics that have appeared, or that the definition names now" if streams else "the first plan"
        insert_topics(cur, pipeline.name, who, why, begin)
    open_streams_of_topics(cur, pipeline.name, [(t, begin[t.topic], bool(ended[t.topic])) for t in new])
    opened = open_streams(cur, pipeline.name) if new else streams
    _keep_moment(cur, pipeline, opened, {t: starts[t] for t in begin if begin[t] == starts[t]})
    return grow(cur, pipeline.name, view, opened, who), None


def require_topics(cur: cursor, pipeline: Pipeline, view: LogView) -> None:
    """Refuses a topic that is named and was never there, and a pattern that no topic has ever matched."""
    source = pipeline.topic
    missing = [name for name in source if view.log_of(name) is None] if isinstance(source, tuple) else []
    if isinstance(source, str) or (view.topics and not missing):
        return
    known = topics_ever(cur, pipeline.name)
    never = [name for name in missing if name not in known]
    if never or not known:
        raise Refusal(
            f"{pipeline.name}: the broker has no {f'topic {never[0]}' if never else topic_words(source)}",
            next_command=f"create it, or change the definition, then lockstep plan {pipeline.name}",
        )


def _keep_moment(cur: cursor, pipeline: Pipeline, opened: Iterable[Stream], starts: Starts) -> None:
    """Keeps the offsets of a start that is a time, for the streams that begin there (T13)."""
    moment = start_of(pipeline.start)
    if isinstance(moment, datetime):
        for stream in opened:
            if stream.topic_partition.topic in starts:
                insert_boundary(cur, stream.stream_id, moment, stream.start_offset)


def _first_starts(broker: Broker, pipeline: Pipeline, view: TopicView, now: datetime) -> dict[int, int]:
    """Returns the start of each partition of a topic that has no streams yet."""
    start = start_of(pipeline.start)
    if isinstance(start, datetime) and start > now:
        raise Refusal(f"{pipeline.name}: its start {start.isoformat()} has not come yet; it is {now.isoformat()}")
    if isinstance(start, AtOffsets):
        return named_starts(pipeline.name, start.offsets, view)
    return first_offsets(start, view, partial(broker.offsets_at, view), now)
