"""Append: every record becomes its own row, keyed by where it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.errors import BadData
from lockstep.ledger.attempts import staging
from lockstep.ledger.queries import queries
from lockstep.targets.fit import payload

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.definition import Append
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.targets", "append")
REPLAY = "the rows of the replayed offsets are deleted, and what today's code makes of their records is inserted in their place"


def publish(cur: cursor, target: Append, attempt: AttemptId, rows: int) -> dict[str, int]:
    """Inserts exactly `rows` rows."""
    columns = payload(cur, target.table, attempt)
    statement = sql.SQL(Q["append_rows"]).format(
        target=sql.Identifier(*target.table.split(".")),
        columns=columns.columns,
        staged=columns.staged,
        table=staging(attempt),
    )
    cur.execute(statement, {"batch_id": attempt.batch_id, "token": attempt.token})
    if cur.rowcount != rows:
        raise BadData(f"{target.table}: {cur.rowcount} rows were inserted, {rows} are staged")
    return {"inserted": rows}


def withdraw(cur: cursor, target: Append, attempt: AttemptId) -> dict[str, int]:
    """Deletes the rows of every record that is replayed."""
    statement = sql.SQL(Q["withdraw_rows"]).format(target=sql.Identifier(*target.table.split(".")))
    cur.execute(statement, {"batch_id": attempt.batch_id})
    return {"withdrawn": cur.rowcount}
