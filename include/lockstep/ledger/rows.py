"""What a cursor gives back: named rows, whose names are the query's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg2.extensions import cursor


def one(cur: cursor) -> Any:
    """The row that must be there."""
    row = cur.fetchone()
    if row is None:
        raise LookupError("a row that the ledger always has is missing")
    return row


def maybe(cur: cursor) -> Any:
    """The row, or None."""
    return cur.fetchone()


def every(cur: cursor) -> list[Any]:
    """All rows."""
    return cur.fetchall()
