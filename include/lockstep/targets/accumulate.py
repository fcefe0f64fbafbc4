"""Keeps totals over a key's records in its row, whatever batches and lanes bring them, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.errors import BadData
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import maybe, one
from lockstep.targets.rows import found_by_index
from lockstep.targets.totals import written_pieces

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.targets import Accumulate
    from lockstep.targets.rows import Rows

Q = queries("lockstep.targets", "accumulate")
REPLAYED_TOTALS = (
    "what the replayed offsets added to each key is taken out, and what today's code makes of their records is added; "
    "a key that nothing is left of loses its row"
)


def publish(cur: cursor, target: Accumulate, rows: Rows) -> dict[str, int]:
    """Records the contribution of each segment to each key, and adds it. Reads no key's history."""
    parts = written_pieces(cur, target) | {"rows": rows.source}
    values = {"batch_id": rows.batch_id, "target": target.table}
    lock_target(cur, target.table)
    refuse_null_key(cur, target.table, parts)
    cur.execute(sql.SQL(Q["contribute"]).format(**parts), values)
    cur.execute(sql.SQL(Q["add"]).format(**parts), values)
    done = one(cur)
    return {"inserted": done.inserted, "updated": done.updated}


def withdraw(cur: cursor, target: Accumulate, batch_id: int) -> dict[str, int]:
    """Removes the contributions of the replaced segments.

    The totals of their keys become those of the contributions that are left.
    """
    parts = written_pieces(cur, target)
    values = {"batch_id": batch_id, "target": target.table}
    lock_target(cur, target.table)
    cur.execute(Q["keep_touched"], values)
    cur.execute(Q["withdraw_contributions"], values)
    withdrawn = cur.rowcount
    with found_by_index(cur):
        cur.execute(sql.SQL(Q["take_anew"]).format(**parts), values)
        cur.execute(sql.SQL(Q["delete_rows"]).format(**parts), values)
    cur.execute(Q["forget_touched"])
    return {"withdrawn": withdrawn}


def lock_target(cur: cursor, table: str) -> None:
    """Lets one transaction at a time add to a table's totals, until it ends."""
    cur.execute(Q["lock_target"], {"target": table})


def refuse_null_key(cur: cursor, table: str, parts: dict[str, sql.Composable]) -> None:
    """Raises `BadData` for a record without a key: its totals would belong to nobody."""
    cur.execute(sql.SQL(Q["null_key"]).format(**parts))
    row = maybe(cur)
    if row is not None:
        raise BadData(
            f"{table}: {', '.join(row.names)} of the record at {row.topic}-{row.partition} offset {row.offset} is "
            "null, and it is the key that the record counts for; drop such records in the transform"
        )
