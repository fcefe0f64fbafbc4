"""Fetches named rows from a cursor. The names are the query's. A row that steps decide about gets a type of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg2.extensions import cursor

_Row = TypeVar("_Row")


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


def as_type(kind: Callable[..., _Row], row: Any, **convert: Callable[[Any], Any]) -> _Row:
    """Returns the row as a value of its type. Raises `TypeError` if query and type name other columns.

    `convert` makes a value of a column's text or number, such as a state.
    """
    return kind(**{name: convert[name](value) if name in convert else value for name, value in row._asdict().items()})
