"""Keeps the account of each keyed lake table: rows that it must hold of each batch, with their hashes' sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2.extras import Json

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Collection

    from psycopg2.extensions import cursor

    from lockstep.core.lake.keyed import HeldRows

Q = queries("lockstep.ledger.lake", "keyed")


def keep_held(cur: cursor, target: str, batch_id: int, changes: HeldRows) -> None:
    """Adds what a commit does to the table. Forgets segments that it replaces. The pointer's row is locked."""
    told = [
        {"batch_id": batch, "stream_id": stream, "rows": rows, "digest": digest}
        for (batch, stream), (rows, digest) in sorted(changes.items())
        if (rows, digest) != (0, 0)
    ]
    cur.execute(Q["add_held"], {"target": target, "changes": Json(told)})
    cur.execute(Q["forget_held"], {"target": target, "batch_id": batch_id})


def expected_held(cur: cursor, target: str, uuid: str | None = None) -> HeldRows:
    """Returns what the table, with this id where it is known, must hold of each segment."""
    cur.execute(Q["held"], {"target": target, "uuid": uuid})
    return {(row.batch_id, row.stream_id): (row.rows, int(row.digest)) for row in every(cur)}


def owners_of_segments(cur: cursor, segments: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Returns those of these segments, by batch and stream, that their batch owns today."""
    cur.execute(Q["owners"], {"batches": [each for each, _ in segments], "streams": [each for _, each in segments]})
    return {(row.batch_id, row.stream_id) for row in every(cur)}


def named_streams(cur: cursor, streams: Collection[int]) -> dict[int, str]:
    """Returns topic and partition of each stream that the ledger knows."""
    cur.execute(Q["named_streams"], {"streams": list(streams)})
    return {row.stream_id: f"{row.topic}-{row.partition}" for row in every(cur)}
