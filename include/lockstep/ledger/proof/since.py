"""Finds the batches that have committed since a time or a batch, for a `verify` of them alone."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import Refusal
from lockstep.core.planning.bounds import AtBatch, AtTime
from lockstep.core.proof.verification import BatchesSince
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import maybe, one

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.planning.bounds import Bound

Q = queries("lockstep.ledger.proof", "since")


def batches_since(cur: cursor, pipeline: str, bound: Bound) -> BatchesSince:
    """Returns the batches whose last range was committed at a time or later, or not before a batch's first range.

    Raises `Refusal` for offsets, and for a batch that has not committed.
    """
    values: dict[str, Any] = {"pipeline": pipeline}
    match bound:
        case AtTime(moment):
            values["moment"] = moment
        case AtBatch(batch_id):
            cur.execute(Q["commit_of_batch"], values | {"batch_id": batch_id})
            row = maybe(cur)
            if row is None:
                raise Refusal(
                    f"{pipeline}: --since {batch_id}: it has no batch {batch_id} that has committed",
                    next_command=f"lockstep batches {pipeline}",
                )
            values["moment"] = row.at
        case _:
            raise Refusal(
                f"{pipeline}: --since takes a time or the number of a batch, and no offsets",
                next_command=f"lockstep batches {pipeline}",
            )
    cur.execute(Q["batches_since"], values)
    found = one(cur)
    return BatchesSince(values["moment"].astimezone(UTC), frozenset(found.batches), int(found.before))
