"""Reads the surroundings of one batch: its partitions, the code versions of its attempts, its request, its rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger", "one_batch")


def partitions(cur: cursor, batch_id: int) -> dict[int, int]:
    """Returns the partition of each stream of the batch."""
    cur.execute(Q["streams_of_batch"], {"batch_id": batch_id})
    return {row.stream_id: row.partition for row in every(cur)}


def code_versions(cur: cursor, batch_id: int) -> dict[str, str]:
    """Returns, by definition hash, the code version of each definition that the batch was tried with."""
    cur.execute(Q["definitions_of_batch"], {"batch_id": batch_id})
    return {row.definition_hash: row.code_version for row in every(cur)}


def request(cur: cursor, batch_id: int) -> Any | None:
    """Returns `request_id, who, why, opened_at` of a fill's or replay's request, or None for the live lane."""
    cur.execute(Q["request_of_batch"], {"batch_id": batch_id})
    return maybe(cur)


def rejects(cur: cursor, batch_id: int, most: int) -> list[Any]:
    """Returns `topic, partition, offset, reason` of the batch's first rejects, at most `most`."""
    cur.execute(Q["rejects_of_batch"], {"batch_id": batch_id, "most": most})
    return every(cur)
