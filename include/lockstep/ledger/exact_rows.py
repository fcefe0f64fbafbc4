"""Reads rows that the database gives as JSON, to the last digit."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger", "exact_rows")
MOST_WRITTEN_DIGITS = 1_000  # of a number without an exponent. A document may hold 1e999999999.


def exact_rows(cur: cursor, table: sql.Identifier) -> Callable[[str | None], Any]:
    """Returns what makes a row of a row's JSON text. Decimals of the table's columns are exact texts.

    Another fraction is a number if a float holds it as it is written. If not, it is a text, too. Documents of JSON are read
    from texts. One that Python cannot read, as it is nested too deep, stays its text.
    """
    columns = _columns(cur, table)
    decimals = frozenset(row.name for row in columns if row.is_decimal)
    documents = frozenset(row.name for row in columns if row.is_document)

    def value_of(name: str, value: Any) -> Any:
        if name in decimals:
            return _text(value)
        return _document(value) if name in documents and isinstance(value, str) else _plain(value)

    def row_of(text: str | None) -> Any:
        if text is None:
            return None
        return {name: value_of(name, value) for name, value in json.loads(text, parse_float=Decimal).items()}

    return row_of


def with_texts(
    cur: cursor, table: sql.Identifier, rows: sql.Composable | None = None, only: Collection[str] | None = None
) -> sql.Composable:
    """Returns the table, or `rows` of its columns or `only` of these, with each document of JSON as its text.

    A column of type `json` takes escapes and numbers for which Postgres makes no `jsonb` of the row.
    """
    columns = [row for row in _columns(cur, table) if only is None or row.name in only]
    source = table if rows is None else rows
    if not any(row.is_document for row in columns):
        return source
    names = [
        sql.SQL("t.{0}::text as {0}" if row.is_document else "t.{0}").format(sql.Identifier(row.name))
        for row in columns
    ]
    return sql.SQL("(select {} from {} t)").format(sql.SQL(", ").join(names), source)


def _columns(cur: cursor, table: sql.Identifier) -> list[Any]:
    cur.execute(Q["columns"], {"table": table.as_string(cur)})
    return every(cur)


def _document(text: str) -> Any:
    try:
        return _plain(json.loads(text, parse_float=Decimal))
    except (RecursionError, ValueError):  # nested too deep, or an integer of too many digits
        return text


def _text(value: Any) -> Any:
    # NaN, infinity and null are no numbers in JSON.
    return format(Decimal(value), "f") if isinstance(value, int | Decimal) else value


def _plain(value: Any) -> Any:
    match value:
        case Decimal():
            if Decimal(repr(float(value))) == value:
                return float(value)
            return f"{value:f}" if abs(value.adjusted()) < MOST_WRITTEN_DIGITS else str(value)
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value
