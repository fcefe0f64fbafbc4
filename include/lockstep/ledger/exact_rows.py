"""Reads rows that the database gives as JSON, to the last digit."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg2 import sql
    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger", "exact_rows")


def exact_rows(cur: cursor, table: sql.Identifier) -> Callable[[str | None], Any]:
    """Returns what makes a row of a row's JSON text. Decimals of the table's columns are exact texts.

    Another fraction is a number if a float holds it as it is written. If not, it is a text, too.
    """
    cur.execute(Q["decimal_columns"], {"table": table.as_string(cur)})
    decimals = frozenset(row.name for row in every(cur))

    def row_of(text: str | None) -> Any:
        if text is None:
            return None
        values = json.loads(text, parse_float=Decimal)
        return {name: _text(value) if name in decimals else _plain(value) for name, value in values.items()}

    return row_of


def _text(value: Any) -> Any:
    # NaN, infinity and null are no numbers in JSON.
    return format(Decimal(value), "f") if isinstance(value, int | Decimal) else value


def _plain(value: Any) -> Any:
    match value:
        case Decimal():
            return float(value) if Decimal(repr(float(value))) == value else f"{value:f}"
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case _:
            return value
