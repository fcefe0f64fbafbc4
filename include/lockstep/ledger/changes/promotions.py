"""Reads which transform is promoted. The ledger itself writes down the offsets that it begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.changes.promotion import Promotion
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import maybe, one

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.changes", "promotions")


def promotion_in_force(cur: cursor, pipeline: str) -> Promotion | None:
    """Returns the promotion that holds now, or None if every transform may commit."""
    cur.execute(Q["in_force"], {"pipeline": pipeline})
    row = maybe(cur)
    if row is None:
        return None
    known = row.detail
    starts = tuple(known["from"])
    return Promotion(
        row.decision_id, row.who, row.why, row.at, known["transform"], known["file"], starts, known.get("canary")
    )


def starts(cur: cursor, decision_id: int) -> tuple[dict[str, Any], ...]:
    """Returns the offsets of a promotion or a withdrawal: where the pipeline stood."""
    cur.execute(Q["starts"], {"decision_id": decision_id})
    return tuple(one(cur).starts)
