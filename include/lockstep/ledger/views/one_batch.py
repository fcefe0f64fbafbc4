"""Reads the surroundings of one batch: its partitions, the code versions of its attempts, its request, its rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.views", "one_batch")


def partitions_of_batch(cur: cursor, batch_id: int) -> dict[int, int]:
    """Returns the partition of each stream of the batch."""
    cur.execute(Q["streams_of_batch"], {"batch_id": batch_id})
    return {row.stream_id: row.partition for row in every(cur)}


def code_versions(cur: cursor, batch_id: int) -> dict[str, str]:
    """Returns, by definition hash, the code version of each definition that the batch was tried with."""
    cur.execute(Q["definitions_of_batch"], {"batch_id": batch_id})
    return {row.definition_hash: row.code_version for row in every(cur)}


def request_of_batch(cur: cursor, batch_id: int) -> Any | None:
    """Returns `request_id, who, why, opened_at` of a fill's or replay's request, or None for the live lane."""
    cur.execute(Q["request_of_batch"], {"batch_id": batch_id})
    return maybe(cur)


def reject_reasons(cur: cursor, batch_id: int, most: int) -> list[Any]:
    """Returns `reason, count` of the batch's rejects, the most frequent first.

    `partitions` and `offsets` are the first places of each reason, at most `most`.
    """
    cur.execute(Q["reject_reasons_of_batch"], {"batch_id": batch_id, "most": most})
    return every(cur)


def rejected_ranges(cur: cursor, batch_id: int) -> list[Any]:
    """Returns `partition, from_offset, until_offset` of the batch's segments with rejects that today's logs still have."""
    cur.execute(Q["rejected_ranges_of_batch"], {"batch_id": batch_id})
    return every(cur)
