"""A table that is partitioned by batch: what was staged becomes the batch's partition, and no row is written twice."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets", "by_batch")


def is_by_batch(cur: cursor, table: str) -> bool:
    """Whether each batch has a partition of the table to itself."""
    cur.execute(Q["is_by_batch"], {"table": table})
    return bool(one(cur).does)


def replaced_partitions(cur: cursor) -> list[Any]:
    """Partitions (target, part) of batches whose offsets other batches own by now, or nobody."""
    cur.execute(Q["replaced_partitions"])
    return every(cur)


def drop_replaced(cur: cursor, target: str, part: str) -> bool:
    """Drops the partition if it is empty, and returns whether it did; takes a lock that readers of the table hold up."""
    cur.execute(Q["drop_replaced"], {"target": target, "part": part})
    return bool(one(cur).gone)


def attached(cur: cursor, table: str, rows: Rows) -> bool:
    """Gives the batch its partition of a table that has them; whether the rows are in it, or are yet to be inserted.

    Staged rows are attached as they are where the table has exactly their columns and types, and nothing looks at an INSERT.
    """
    if not rows.count or not is_by_batch(cur, table):
        return False
    facts = {"table": table, "staged": rows.table, **asdict(rows.attempt)}
    cur.execute(Q["is_alike"], facts)
    is_alike = bool(one(cur).does)
    cur.execute(Q["attach_staged" if is_alike else "make_partition"], facts)
    return is_alike
