"""Reads and writes a pipeline's moves to other topics. The decision itself is a row like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.changes.moving import Move

Q = queries("lockstep.ledger.changes", "moves")


def last_move(cur: cursor, pipeline: str) -> Any | None:
    """Returns number, person and digest of the pipeline's last move, or None."""
    cur.execute(Q["last_move"], {"pipeline": pipeline})
    return maybe(cur)


def has_own_line(cur: cursor, streams: Sequence[int], topic: str) -> bool:
    """Returns True if the pipeline has read the topic beside these streams. Two lines of logs are never one."""
    cur.execute(Q["own_line"], {"streams": list(streams), "topic": topic})
    return bool(one(cur).is_another)


def skipped_offsets(cur: cursor, streams: Sequence[int]) -> int:
    """Returns how many offsets of these streams were skipped and not filled."""
    cur.execute(Q["skipped"], {"streams": list(streams)})
    return int(one(cur).skipped)


def open_successors(cur: cursor, move: Move) -> None:
    """Opens the successors of streams that are closed by now. The decision must stand before them."""
    columns = {
        "streams": [each.stream.stream_id for each in move.moved],
        "starts": [each.offset for each in move.moved],
        "leader_epochs": [move.view.bounds[each.stream.partition].leader_epoch for each in move.moved],
    }
    log = {"cluster_id": move.view.cluster_id, "topic": move.view.topic, "topic_id": move.view.topic_id}
    cur.execute(Q["insert_successors"], columns | log)


def moved_streams(cur: cursor, pipeline: str) -> list[Any]:
    """Returns each stream that a move has closed, with the log and the offset at which it goes on."""
    cur.execute(Q["moved_streams"], {"pipeline": pipeline})
    return every(cur)
