"""Opens, grows and retires the streams of a pipeline, all under its row lock."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lockstep.core.offsets import Stream, TopicPartition
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import LogView, TopicView

Q = queries("lockstep.ledger.batch", "streams")
_COLUMNS = ("topics", "topic_ids", "epochs", "partitions", "incarnations", "starts", "leader_epochs")


def open_streams(cur: cursor, pipeline: str) -> tuple[Stream, ...]:
    """Returns the open streams and their positions. Call it after `unfinished`, in a statement of its own (T6)."""
    cur.execute(Q["open_streams"], {"pipeline": pipeline})
    return streams_of(every(cur))


def read_before(cur: cursor, streams: Iterable[Stream]) -> dict[int, int]:
    """Returns, per stream, the offset below which an older incarnation or a former owner of the table has read."""
    cur.execute(Q["read_before"], {"streams": [stream.stream_id for stream in streams]})
    return {row.stream_id: row.before for row in every(cur)}


def open_new_streams(cur: cursor, pipeline: str, view: TopicView, starts: Mapping[int, int], *, same_log: bool) -> None:
    """Opens a stream for each partition of `starts`, all in one new epoch. Another log means a new incarnation.

    A partition that was gone and came back belongs to another log. This holds even if growth of the topic brings it
    back.
    """
    open_streams_of_topics(cur, pipeline, [(view, starts, same_log)])


def open_streams_of_topics(
    cur: cursor, pipeline: str, topics: Sequence[tuple[TopicView, Mapping[int, int], bool]]
) -> None:
    """Opens the streams of several topics at once. Each has its starts, and whether it is the log that was read."""
    cur.execute(Q["latest_epochs"], {"pipeline": pipeline, "topics": [view.topic for view, _, _ in topics]})
    known: dict[str, list[Any]] = {}
    for row in every(cur):
        known.setdefault(row.topic, []).append(row)
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for view, starts, same_log in topics:
        rows, log = known.get(view.topic, []), (view.cluster_id, view.topic_id)
        epoch = 1 + max((row.epoch for row in rows), default=-1)
        incarnations = {r.partition: r.incarnation + (not same_log or (r.cluster_id, r.topic_id) != log) for r in rows}
        for p in sorted(starts):
            values = (
                view.topic,
                view.topic_id,
                epoch,
                p,
                incarnations.get(p, 0),
                starts[p],
                view.bounds[p].leader_epoch,
            )
            for name, value in zip(_COLUMNS, values, strict=True):
                columns[name].append(value)
    if topics:
        cur.execute(Q["insert_streams"], {"pipeline": pipeline, "cluster_id": topics[0][0].cluster_id} | columns)


def insert_boundary(cur: cursor, stream_id: int, at: datetime, offset: int) -> None:
    """Records the offset that a time was resolved to, once, for later callers."""
    cur.execute(Q["insert_boundary"], {"stream_id": stream_id, "at": at, "offset": offset})


def grow(cur: cursor, pipeline: str, view: LogView, streams: Sequence[Stream], who: str) -> tuple[Stream, ...]:
    """Opens a new epoch for all partitions of a topic that has new ones (T12, T13).

    Starts old partitions at their positions and new ones at 0. One that was given up goes on where it ended. Returns
    the streams that are open then. Opens nothing for another log, nor for a topic without a stream.
    """
    own: dict[str, list[Stream]] = {}
    for stream in streams:
        own.setdefault(stream.topic_partition.topic, []).append(stream)
    grown = [_grow(cur, pipeline, each, own[each.topic], who, view) for each in view.topics if each.topic in own]
    return open_streams(cur, pipeline) if any(grown) else tuple(streams)


def _grow(cur: cursor, pipeline: str, view: TopicView, streams: Sequence[Stream], who: str, seen: LogView) -> bool:
    new = sorted(view.bounds.keys() - {stream.partition for stream in streams})
    if not new or any(stream.log != view.log_of(view.topic) for stream in streams):
        return False
    for stream in streams:
        retire_stream(cur, stream.stream_id)
    ended = ends_of_topics(cur, pipeline, [view])[view.topic]  # of a partition that was given up, and is there again
    begin = {stream.partition: stream.position for stream in streams} | {p: ended.get(p, 0) for p in new}
    open_new_streams(cur, pipeline, view, begin, same_log=True)
    which = f"topic {view.topic}" if seen.option(view.topic) else "the topic"
    insert_growth(cur, pipeline, who, which, new)
    return True


def ends_of_topics(cur: cursor, pipeline: str, views: Sequence[TopicView]) -> dict[str, dict[int, int]]:
    """Returns, per topic, where its streams have ended, by partition, if it is the log that they have read."""
    cur.execute(Q["ends_of_topics"], {"pipeline": pipeline, "topics": [view.topic for view in views]})
    found: dict[str, dict[int, int]] = {}
    logs = {view.topic: view.log_of(view.topic) for view in views}
    others = set()
    for row in every(cur):
        found.setdefault(row.topic, {})[row.partition] = row.position
        if (row.cluster_id, row.topic, row.topic_id) != logs[row.topic]:
            others.add(row.topic)
    return {view.topic: {} if view.topic in others else found.get(view.topic, {}) for view in views}


def topics_ever(cur: cursor, pipeline: str) -> set[str]:
    """Returns the topics that a pipeline has ever had a stream of."""
    cur.execute(Q["topics_ever"], {"pipeline": pipeline})
    return {row.topic for row in every(cur)}


def topics_left(cur: cursor, pipeline: str, topics: Sequence[str]) -> dict[str, str]:
    """Returns those of these topics that a move has left, each with the topic that is read in its place."""
    cur.execute(Q["topics_left"], {"pipeline": pipeline, "topics": list(topics)})
    return {row.topic: row.now for row in every(cur)}


def insert_topics(cur: cursor, pipeline: str, who: str, why: str, starts: Mapping[str, Mapping[int, int]]) -> None:
    """Records the decision to read these topics, each from these offsets. Their streams come after it."""
    cur.execute(Q["insert_topics"], {"pipeline": pipeline, "who": who, "why": why, "topics": json.dumps(starts)})


def insert_growth(cur: cursor, pipeline: str, who: str, which: str, partitions: Sequence[int]) -> None:
    """Records a topic's growth, because from now on a key may be in another partition."""
    why = f"{which} has new partitions: {', '.join(map(str, partitions))}"
    cur.execute(Q["insert_growth"], {"pipeline": pipeline, "who": who, "why": why})


def retire_stream(cur: cursor, stream_id: int) -> None:
    """Closes a stream for good. Its coverage stays."""
    cur.execute(Q["retire_stream"], {"stream_id": stream_id})


def closed_log(cur: cursor, streams: Sequence[int]) -> Any | None:
    """Returns the first stream (topic, partition, position) of these whose log is read no more, or None."""
    cur.execute(Q["closed_log"], {"streams": list(streams)})
    return maybe(cur)


def streams_of(rows: Sequence[Any]) -> tuple[Stream, ...]:
    """Converts rows of streams to values."""
    return tuple(
        Stream(
            row.stream_id,
            TopicPartition(row.topic, row.partition),
            row.cluster_id,
            row.topic_id,
            row.incarnation,
            row.epoch,
            row.start_offset,
            row.position,
            row.leader_epoch,
        )
        for row in rows
    )
