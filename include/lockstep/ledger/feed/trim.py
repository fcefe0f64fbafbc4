"""Trims feeds: removes images that are older than their feed keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.feed", "trim")


def tables_with_images(cur: cursor) -> list[str]:
    """Returns the tables whose feeds hold images."""
    cur.execute(Q["tables_with_images"])
    return [row.target for row in every(cur)]


def trim(cur: cursor, table: str, most: int) -> int:
    """Trims at most so many of a feed's oldest changes, by whole change sets. Returns their number (E15)."""
    cur.execute(Q["trim"], {"target": table, "most": most})
    return int(one(cur).trimmed)
