"""Reads the rows of a target that one batch wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Target

Q = queries("lockstep.targets.proof", "of_batch")


def rows_of_batch(cur: cursor, target: Target, batch_id: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Returns the names of the table's columns, and the rows that bear this batch's number."""
    cur.execute(sql.SQL(Q["rows"]).format(target=table_name(target.table)), {"batch_id": batch_id})
    return [column.name for column in cur.description or ()], [tuple(map(_plain, row)) for row in cur.fetchall()]


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value
