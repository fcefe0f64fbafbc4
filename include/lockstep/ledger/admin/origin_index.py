"""Finds and makes the index by which a keyed table's rows are found by their record: stream and offset."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import maybe, one

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.admin", "origin_index")
ENDING = "_by_offset"
MOST_LETTERS = 63  # Postgres cuts a longer name, and two names may then be one


def lacks_origin_index(cur: cursor, table: str) -> bool:
    """Returns True if the table is there without the index. A look for a record's rows then reads all of it."""
    cur.execute(Q["lacks_index"], {"table": table})
    row = maybe(cur)
    return bool(row and row.lacks)


def origin_index(cur: cursor, table: str) -> str:
    """Returns the statement that makes the index. It may be run again."""
    parts = {"index": sql.Identifier(index_name(table, ENDING)), "table": table_name(table)}
    return sql.SQL(Q["create_index"]).format(**parts).as_string(cur)


def index_new_tables(cur: cursor, tables: Iterable[str]) -> None:
    """Makes the index of tables without a row that this session owns. A person decides for all others."""
    for table in tables:
        cur.execute(Q["lacks_index"], {"table": table})
        row = maybe(cur)
        if row is None or not (row.lacks and row.is_ours):
            continue
        cur.execute(sql.SQL(Q["is_empty"]).format(table=table_name(table)))
        if one(cur).yes:
            cur.execute(origin_index(cur, table))


def index_name(table: str, ending: str) -> str:
    """Returns the name of a table's index with this ending, no longer than Postgres keeps it."""
    name = table.partition(".")[2]
    if len(name + ending) <= MOST_LETTERS:
        return name + ending
    digest = f"_{sha256(name.encode()).hexdigest()[:8]}{ending}"
    return name[: MOST_LETTERS - len(digest)] + digest
