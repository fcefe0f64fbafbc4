"""Fetches named rows from a cursor. The names are the query's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psycopg2.extensions import cursor


def one(cur: cursor) -> Any:
    """Returns the next row. Raises `LookupError` if there is none."""
    row = cur.fetchone()
    if row is None:
        raise LookupError("a row that the ledger always has is missing")
    return row


def maybe(cur: cursor) -> Any:
    """Returns the next row, or None."""
    return cur.fetchone()


def every(cur: cursor) -> list[Any]:
    """Returns all rows."""
    return cur.fetchall()
