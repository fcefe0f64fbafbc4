"""Records a log's leader epoch, and reads its newest committed record. Both reveal a log that was replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.batch", "one_log")


def last_records(cur: cursor, streams: Sequence[int]) -> dict[int, Any]:
    """Returns, per stream, (last_offset, min_timestamp, max_timestamp). Omits streams without delivered records."""
    cur.execute(Q["last_records"], {"streams": list(streams)})
    return {row.stream_id: row for row in every(cur)}


def keep_leader_epochs(cur: cursor, seen: Sequence[tuple[int, int, int]]) -> None:
    """Records (stream, position, leader epoch): the log was complete up to that position under that epoch.

    Skips streams that a live batch reads past their position.
    """
    if seen:
        cur.execute(Q["keep_leader_epochs"], _columns(seen))


def keep_resumed_epochs(cur: cursor, batch_id: int, seen: Sequence[tuple[int, int, int]]) -> None:
    """Records leader epochs like `keep_leader_epochs`, for a batch that is being resumed.

    Fences out its open attempts.
    """
    if seen:
        cur.execute(Q["outdate_attempts"], {"batch_id": batch_id})
        cur.execute(Q["keep_resumed_epochs"], _columns(seen))


def planned_epochs(cur: cursor, batch_id: int) -> dict[int, int]:
    """Returns, per stream, the leader epoch that a batch was planned under. Omits streams without one."""
    cur.execute(Q["planned_epochs"], {"batch_id": batch_id})
    return {row.stream_id: row.leader_epoch for row in every(cur)}


def shared_until(cur: cursor, pipeline: str) -> dict[int, int | None]:
    """Returns, per stream, the offset below which today's log still holds its records, or None for all."""
    cur.execute(Q["shared_until"], {"pipeline": pipeline})
    return {row.stream_id: row.shared_until for row in every(cur)}


def _columns(seen: Sequence[tuple[int, int, int]]) -> dict[str, list[int]]:
    streams, positions, epochs = zip(*seen, strict=True)
    return {"streams": list(streams), "positions": list(positions), "epochs": list(epochs)}
