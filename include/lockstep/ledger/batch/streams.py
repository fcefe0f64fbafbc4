"""Opens, grows and retires the streams of a pipeline, all under its row lock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.offsets import Stream, TopicPartition
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import TopicView

Q = queries("lockstep.ledger.batch", "streams")


def open_streams(cur: cursor, pipeline: str) -> tuple[Stream, ...]:
    """Returns the open streams and their positions. Call it after `unfinished`, in a statement of its own (T6)."""
    cur.execute(Q["open_streams"], {"pipeline": pipeline})
    return streams_of(every(cur))


def open_new_streams(cur: cursor, pipeline: str, view: TopicView, starts: Mapping[int, int], *, same_log: bool) -> None:
    """Opens a stream for each partition of `starts`, all in one new epoch. Another log means a new incarnation.

    A partition that was gone and came back belongs to another log. This holds even if growth of the topic brings it
    back.
    """
    cur.execute(Q["latest_epochs"], {"pipeline": pipeline, "topic": view.topic})
    rows = every(cur)
    epoch = 1 + max((row.epoch for row in rows), default=-1)
    log = (view.cluster_id, view.topic_id)
    incarnations = {r.partition: r.incarnation + (not same_log or (r.cluster_id, r.topic_id) != log) for r in rows}
    partitions = sorted(starts)
    streams = {
        "epoch": epoch,
        "partitions": partitions,
        "incarnations": [incarnations.get(p, 0) for p in partitions],
        "starts": [starts[p] for p in partitions],
        "leader_epochs": [view.bounds[p].leader_epoch for p in partitions],
    }
    named = {"pipeline": pipeline, "cluster_id": view.cluster_id, "topic": view.topic, "topic_id": view.topic_id}
    cur.execute(Q["insert_streams"], named | streams)


def insert_boundary(cur: cursor, stream_id: int, at: datetime, offset: int) -> None:
    """Records the offset that a time was resolved to, once, for later callers."""
    cur.execute(Q["insert_boundary"], {"stream_id": stream_id, "at": at, "offset": offset})


def grow(cur: cursor, pipeline: str, view: TopicView, streams: Sequence[Stream], who: str) -> tuple[Stream, ...]:
    """Opens a new epoch for all partitions if the topic has new ones (T12, T13).

    Starts old partitions at their positions and new ones at 0. Returns the streams that are open then. Opens nothing
    for another log.
    """
    new = sorted(view.bounds.keys() - {stream.partition for stream in streams})
    if not new or any((s.cluster_id, s.topic_id) != (view.cluster_id, view.topic_id) for s in streams):
        return tuple(streams)
    for stream in streams:
        retire_stream(cur, stream.stream_id)
    begin = {stream.partition: stream.position for stream in streams} | dict.fromkeys(new, 0)
    open_new_streams(cur, pipeline, view, begin, same_log=True)
    insert_growth(cur, pipeline, who, new)
    return open_streams(cur, pipeline)


def insert_growth(cur: cursor, pipeline: str, who: str, partitions: Sequence[int]) -> None:
    """Records the topic's growth, because from now on a key may be in another partition."""
    why = f"the topic has new partitions: {', '.join(map(str, partitions))}"
    cur.execute(Q["insert_growth"], {"pipeline": pipeline, "who": who, "why": why})


def retire_stream(cur: cursor, stream_id: int) -> None:
    """Closes a stream for good. Its coverage stays."""
    cur.execute(Q["retire_stream"], {"stream_id": stream_id})


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
