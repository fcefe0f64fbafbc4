"""Looks at both logs of a move. Later records of the old one must be in the one that goes on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.changes.moving import first_missing
from lockstep.core.offsets import TopicPartition, TopicViews
from lockstep.core.proof.verification import PromiseCheck
from lockstep.ledger.changes.moves import moved_streams
from lockstep.steps.topics.copied import COPY_SECONDS, SECONDS_BETWEEN_COPIES, prints_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import LogView

FOLLOWED = "what followed the move is in"
TOPIC_GONE = "its topic is gone, or the definition does not name it any more"


@dataclass(frozen=True, slots=True)
class Moves:
    """The streams that moves have closed, and one reading of the broker that has their topics, too."""

    moved: Sequence[Any]
    view: LogView

    def why_not(self, stream: Any) -> str | None:
        """Returns why a stream's log cannot be compared, or None if it can."""
        there = self.view.log_of(stream.topic)
        to = next(
            (m.to_topic for m in self.moved if (m.topic_id, m.cluster_id) == (stream.topic_id, stream.cluster_id)), None
        )
        if to is None:
            return None if there else TOPIC_GONE
        if stream.cluster_id != self.view.cluster_id:
            return f"it moved to {to}, and its log is on cluster {stream.cluster_id}, which LOCKSTEP_KAFKA does not lead to"
        if there is None or there[2] != stream.topic_id:
            return f"it moved to {to}, and its log is gone"
        return None


def look_at_moves(conn: connection, broker: Broker, pipeline: str, view: LogView) -> Moves:
    """Returns the moves of a pipeline, and the view with the topics that it moved from. Those that are gone are left out."""
    with transaction(conn, READER) as cur:
        moved = moved_streams(cur, pipeline)
    more = sorted({m.topic for m in moved if m.cluster_id == view.cluster_id and view.log_of(m.topic) is None})
    seen = broker.topic_views(more).topics if more else ()
    return Moves(moved, TopicViews(view.cluster_id, (*view.topics, *seen)) if seen else view)


def move_checks(broker: Broker, moves: Moves) -> list[PromiseCheck]:
    """Returns one check for each moved stream: its log's records behind the position are in the next log, in order.

    Waits a moment for a copy that is behind. Must run outside a ledger transaction (T6).
    """
    return [_followed(broker, m, moves.view) for m in moves.moved]


def stream_left_out(stream: Any, left_out: str) -> PromiseCheck:
    """Returns a check that compares nothing of a stream, and says why."""
    name = f"{stream.topic}-{stream.partition}: stream {stream.stream_id}"
    return PromiseCheck(name, ok=True, detail="not compared", left_out=left_out)


def _followed(broker: Broker, moved: Any, view: LogView) -> PromiseCheck:
    old, new = (TopicPartition(topic, moved.partition) for topic in (moved.topic, moved.to_topic))
    name = f"{old}: {FOLLOWED} {new}"
    logs = (moved.cluster_id, moved.topic, moved.topic_id), (moved.to_cluster_id, moved.to_topic, moved.to_topic_id)
    if any(view.log_of(log[1]) != log for log in logs):
        return PromiseCheck(name, ok=True, detail="not compared", left_out="one of the two logs is gone, or elsewhere")
    if view[old].log_start > moved.position or view[new].log_start > moved.start_offset:
        return PromiseCheck(name, ok=True, detail="not compared", left_out="retention has removed records there")
    end, until = view[old].stable_end, time.monotonic() + COPY_SECONDS
    while True:
        last = broker.topic_views([new.topic])[new].stable_end
        missing, count = first_missing(
            prints_of(broker, (old.topic, old.partition), moved.position, end),
            prints_of(broker, (new.topic, new.partition), moved.start_offset, last),
        )
        if missing is None:
            detail = f"{count} records from offset {moved.position} on, there from {moved.start_offset} on"
            return PromiseCheck(name, ok=True, detail=detail)
        if time.monotonic() >= until:
            detail = (
                f"offset {missing} of {old} is not in {new} [{moved.start_offset}, {last}): it is behind, or lacks it"
            )
            return PromiseCheck(name, ok=False, detail=detail)
        time.sleep(SECONDS_BETWEEN_COPIES)
