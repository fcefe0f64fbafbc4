"""Attaches staged rows as the batch's partition of a table that has one per batch. No row is written twice."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres_errors import StatementRefused, server_refusals
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import in_database
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets", "by_batch")


def is_by_batch(cur: cursor, table: str) -> bool:
    """Returns True if each batch has a partition of the table to itself."""
    cur.execute(Q["is_by_batch"], {"table": in_database(table)})
    return bool(one(cur).does)


def replaced_partitions(cur: cursor) -> list[Any]:
    """Returns partitions (target, part) of batches that own no offsets any more."""
    cur.execute(Q["replaced_partitions"])
    return every(cur)


def drop_replaced(cur: cursor, target: str, part: str) -> bool:
    """Drops the partition if it is empty. Returns True if it did.

    Readers of the table delay the lock that this takes.
    """
    cur.execute(Q["drop_replaced"], {"target": target, "part": part})
    return bool(one(cur).gone)


def attached(cur: cursor, table: str, rows: Rows) -> bool:
    """Gives the batch its partition of a table that has them. Returns True if the rows are already in it.

    Staged rows are attached as they are if the table has exactly their columns and types. Nothing in the table may look
    at an INSERT, as a trigger or a check does. Otherwise the rows are still to be inserted. So are those of which one
    was put aside because no index holds it. While an older snapshot may see that row, an index is built over it, too.
    """
    if not rows.count or not is_by_batch(cur, table):
        return False
    facts = {"table": table, "staged": rows.table, **asdict(rows.attempt)}
    cur.execute(Q["is_alike"], facts)
    if one(cur).does and _attach(cur, facts):
        return True
    cur.execute(Q["make_partition"], facts)
    return False


def _attach(cur: cursor, facts: Mapping[str, Any]) -> bool:
    """Attaches the staged rows. Returns False, with nothing done, if an index cannot hold one of them."""
    cur.execute(Q["begin_attaching"])
    try:
        with server_refusals():
            cur.execute(Q["attach_staged"], facts)
    except StatementRefused as refused:
        if not refused.too_long:
            raise
        cur.execute(Q["undo_attaching"])
        return False
    cur.execute(Q["end_attaching"])
    return True
