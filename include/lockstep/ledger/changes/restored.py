"""Compares the ledger with evidence in other places, and moves its sequences past that evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.changes.restored import SeenBatch
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.changes.restored import Evidence

Q = queries("lockstep.ledger.changes", "restored")


def unknown_to_ledger(cur: cursor, seen: Sequence[SeenBatch]) -> tuple[SeenBatch, ...]:
    """Returns the seen batches and attempts that this ledger does not know."""
    columns = {
        "streams": [each.stream_id for each in seen],
        "froms": [each.from_offset for each in seen],
        "untils": [each.until_offset for each in seen],
        "batches": [each.batch_id for each in seen],
        "tokens": [each.token for each in seen],
    }
    cur.execute(Q["unknown"], columns)
    return tuple(SeenBatch(*row) for row in every(cur))


def streams_of_others(cur: cursor, pipeline: str) -> frozenset[int]:
    """Returns the streams of every other pipeline."""
    cur.execute(Q["of_others"], {"pipeline": pipeline})
    return frozenset(row.stream_id for row in every(cur))


def knows_attempt(cur: cursor, batch_id: int, token: int) -> bool:
    """Returns True if this ledger has opened the attempt."""
    cur.execute(Q["knows_attempt"], {"batch_id": batch_id, "token": token})
    return bool(one(cur).yes)


def pass_over(cur: cursor, evidence: Evidence) -> None:
    """Moves the sequences of tokens, batch ids and stream ids past the evidence, never back."""
    seen = {"token": evidence.past_token, "batch": evidence.past_batch, "stream": evidence.past_stream}
    cur.execute(Q["pass_over"], seen)
