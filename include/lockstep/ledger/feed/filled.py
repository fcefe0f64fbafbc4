"""Refuses new columns that have values before a feed follows them: no change would tell of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.errors import BadDefinition
from lockstep.core.feed.feeds import SCHEMA, feed_name
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.feed", "filled")


def refuse_filled_columns(cur: cursor, pipeline: str, tables: Iterable[str]) -> None:
    """Raises `BadDefinition` if a row has a value in a column that the images of its table lack."""
    for table in tables:
        cur.execute(Q["new_columns"], {"target": table, "schema": SCHEMA, "images": feed_name(table)})
        for column in every(cur):
            parts = {"target": table_name(table), "column": sql.Identifier(column.name)}
            cur.execute(sql.SQL(Q["is_filled"]).format(**parts))
            if one(cur).is_filled:
                name = sql.Identifier(column.name).as_string(cur)
                raise BadDefinition(
                    f"{pipeline}: {table} has values in its new column {column.name}, and no change of its feed tells of them",
                    next_command=f"alter table {table} drop column if exists {name}, add column {name} {column.type}; without "
                    f"a default, also in target.sql, then lockstep migrate {pipeline}",
                )
