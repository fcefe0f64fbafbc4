"""What surrounds one batch: its partitions, the code that was tried for it, who asked for it, its rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger", "one_batch")


def partitions(cur: cursor, batch_id: int) -> dict[int, int]:
    """The partition of each of its streams."""
    cur.execute(Q["streams_of_batch"], {"batch_id": batch_id})
    return {row.stream_id: row.partition for row in every(cur)}


def code_versions(cur: cursor, batch_id: int) -> dict[str, str]:
    """The code version of each definition that was tried for it, by the definition's hash."""
    cur.execute(Q["definitions_of_batch"], {"batch_id": batch_id})
    return {row.definition_hash: row.code_version for row in every(cur)}


def request(cur: cursor, batch_id: int) -> Any | None:
    """`request_id, who, why, opened_at` of what a fill or a replay works for; None of the live lane."""
    cur.execute(Q["request_of_batch"], {"batch_id": batch_id})
    return maybe(cur)


def rejects(cur: cursor, batch_id: int, most: int) -> list[Any]:
    """`topic, partition, offset, reason` of its first rejects."""
    cur.execute(Q["rejects_of_batch"], {"batch_id": batch_id, "most": most})
    return every(cur)
