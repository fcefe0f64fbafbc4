"""Append: every record becomes its own row, keyed by where it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.errors import BadData
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.targets.fit import payload

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.definition import Append
    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets", "append")
REPLAY = "the rows of the replayed offsets are deleted, and what today's code makes of their records is inserted in their place"


def publish(cur: cursor, target: Append, rows: Rows) -> dict[str, int]:
    """Inserts every row."""
    columns = payload(cur, target.table, rows.table)
    statement = sql.SQL(Q["append_rows"]).format(
        target=table_name(target.table),
        columns=columns.columns,
        staged=columns.staged,
        rows=rows.source,
    )
    cur.execute(statement, {"batch_id": rows.batch_id})
    if cur.rowcount != rows.count:
        raise BadData(f"{target.table}: {cur.rowcount} rows were inserted, {rows.count} are staged")
    return {"inserted": rows.count}


def withdraw(cur: cursor, target: Append, batch_id: int, stream_id: int | None = None) -> dict[str, int]:
    """Deletes the rows of every record that is replayed."""
    statement = sql.SQL(Q["withdraw_rows"]).format(target=table_name(target.table))
    cur.execute(statement, {"batch_id": batch_id, "stream_id": stream_id})
    return {"withdrawn": cur.rowcount}
