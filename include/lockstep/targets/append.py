"""Appends every record as its own row. The key is the place where it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.errors import BadData
from lockstep.core.records import TARGET_COORDINATES
from lockstep.core.staging import COPY_SIZE
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, one
from lockstep.targets.by_batch import is_by_batch
from lockstep.targets.payload import payload
from lockstep.targets.rows import found_by_index
from lockstep.targets.table.fit import types_of_target, written_alike

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Append
    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets", "append")
REPLAYED_ROWS = (
    "the rows of the replayed offsets are deleted, "
    "and what today's code makes of their records is inserted in their place"
)


def publish(cur: cursor, target: Append, rows: Rows) -> dict[str, int]:
    """Inserts every row. Raises `BadData` if their number is not that of the staged rows."""
    columns = payload(cur, target.table, rows)
    parts = {"target": table_name(target.table), "columns": columns.columns, "staged": columns.staged}
    cur.execute(sql.SQL(Q["append_rows"]).format(rows=rows.source, **parts), {"batch_id": rows.batch_id})
    if cur.rowcount != rows.count:
        raise BadData(f"{target.table}: {cur.rowcount} rows were inserted, {rows.count} are staged")
    return {"inserted": rows.count}


def straight_columns(cur: cursor, target: Append, columns: Sequence[Column]) -> tuple[str, ...]:
    """Returns the columns, in the order of their values, of rows that may be copied without a cast.

    Returns none if the table or a column's type needs another way.
    """
    types = types_of_target(cur, target.table)
    cur.execute(Q["takes_copies"], {"table": target.table})
    if not one(cur).does or any(types[column.name] != written_alike(column.postgres_type) for column in columns):
        return ()
    return (*TARGET_COORDINATES, *(column.name for column in columns))


def copy_appended(cur: cursor, target: Append, names: Sequence[str], item: StreamRange, rows: BinaryIO) -> int:
    """Copies rows of the range, in COPY's binary format, into the table. Returns their number."""
    offsets = item.offsets
    statement = sql.SQL(Q["copy_rows"]).format(
        target=table_name(target.table),
        columns=sql.SQL(", ").join(map(sql.Identifier, names)),
        stream_id=sql.Literal(item.stream_id),
        from_offset=sql.Literal(offsets.from_offset),
        until_offset=sql.Literal(offsets.until_offset),
    )
    cur.copy_expert(statement, rows, COPY_SIZE)
    return int(cur.rowcount)


def withdraw(cur: cursor, target: Append, batch_id: int, stream_id: int | None = None) -> dict[str, int]:
    """Deletes the rows of every record that is replayed. In a table by batch it looks at their batches' partitions alone."""
    values = {"batch_id": batch_id, "stream_id": stream_id}
    parts = {"target": table_name(target.table), "of_batches": sql.SQL("")}
    if is_by_batch(cur, target.table):
        cur.execute(Q["replaced_batches"], values)
        batches = sql.Literal([row.batch_id for row in every(cur)])
        parts["of_batches"] = sql.SQL(Q["of_batches"]).format(batches=batches)
    with found_by_index(cur):
        cur.execute(sql.SQL(Q["withdraw_rows"]).format(**parts), values)
        return {"withdrawn": cur.rowcount}
