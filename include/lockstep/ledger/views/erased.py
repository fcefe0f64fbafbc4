"""Finds the decision that erased a record, so that nothing shows its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import maybe

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.views", "erased")


def erased_by(cur: cursor, stream_id: int, offset: int, key: bytes | None = None) -> int | None:
    """Returns the decision that erased a record, by its offset or by its Kafka key, or None."""
    keys = [] if key is None else [key, key.lower().translate(None, b"{}-")]
    cur.execute(Q["erased_by"], {"stream_id": stream_id, "offset": offset, "keys": keys})
    row = maybe(cur)
    return row.decision_id if row else None
