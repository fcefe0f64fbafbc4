"""Drops the remains of dead attempts: staging tables and hidden rows that can never be committed any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.adapters.connection.roles import become
from lockstep.adapters.postgres import COMMITTER, PARTITION_ROLE, PLANNER, transaction
from lockstep.core.errors import LockTimeout
from lockstep.core.staging import stager_of
from lockstep.faults import reach
from lockstep.ledger.batch import hidden
from lockstep.ledger.batch.commit import drop_staging_table, end_stagers, staging_left
from lockstep.ledger.changes import requests
from lockstep.steps.requests.plan_request import give_up
from lockstep.targets import by_batch

if TYPE_CHECKING:
    from psycopg2 import sql
    from psycopg2.extensions import connection

REAP_LOCK_SECONDS = 0.5  # a zombie's open COPY holds its table: its session is ended


@dataclass(frozen=True, slots=True)
class Reaped:
    """The dropped tables and cleared batches, and those that another session still holds."""

    dropped: tuple[str, ...]
    held: tuple[str, ...]


def reap(conn: connection) -> Reaped:
    """Drops the staging tables of attempts that are closed or fenced out, each in its own transaction.

    Deletes the hidden rows of batches that were abandoned. The database keeps such a batch hidden until none is left.
    Ends their sessions that still write, because such rows can never be committed.
    """
    _end_previews(conn)
    with transaction(conn, COMMITTER) as cur:
        tables = staging_left(cur)
    dropped: list[str] = []
    held: list[str] = []
    for table in tables:
        gone = _drop(conn, table)
        if not gone:
            with transaction(conn, None) as cur:
                end_stagers(cur, stager_of(table.strings[-1]))
            gone = _drop(conn, table)
        (dropped if gone else held).append(table.strings[-1])
    with transaction(conn, COMMITTER) as cur:
        left = hidden.left(cur)
    for row in left:
        (dropped if _clear(conn, row) else held).append(f"rows of batch {row.batch_id} in {row.rows_table}")
    return Reaped(tuple(dropped), tuple(held))


def drop_empty_partitions(conn: connection) -> Reaped:
    """Drops the partitions that replays have emptied.

    Each has a transaction of its own that waits only briefly for readers.
    """
    with transaction(conn, COMMITTER) as cur:
        found = by_batch.replaced_partitions(cur)
    dropped: list[str] = []
    held: list[str] = []
    busy: set[str] = set()  # one wait for each table's readers is enough
    for row in found:
        if row.target in busy:
            continue
        try:
            with transaction(conn, COMMITTER, lock_seconds=REAP_LOCK_SECONDS) as cur:
                gone = by_batch.drop_replaced(cur, row.target, row.part)
        except LockTimeout:
            busy.add(row.target)
            held.append(row.part)
            continue
        if gone:
            dropped.append(row.part)
    return Reaped(tuple(dropped), tuple(held))


def _drop(conn: connection, table: sql.Identifier) -> bool:
    try:
        with transaction(conn, COMMITTER, lock_seconds=REAP_LOCK_SECONDS) as cur:
            drop_staging_table(cur, table)
    except LockTimeout:
        return False
    return True


def _clear(conn: connection, row: Any) -> bool:
    try:
        with transaction(conn, COMMITTER) as cur:
            if row.is_there:
                become(cur, PARTITION_ROLE)
                hidden.clear(cur, row.batch_id, row.rows_table)
                become(cur, COMMITTER)
            reach("reap.cleared")
            hidden.unhide(cur, row.batch_id)
    except LockTimeout:
        return False
    return True


def _end_previews(conn: connection) -> None:
    """Ends previews whose process died. They hold offsets that will never be committed."""
    with transaction(conn, PLANNER) as cur:
        for row in requests.abandoned_previews(cur):
            if row.batch_id is not None:
                give_up(cur, row.batch_id, "a preview that its process did not end")
            requests.close_request(cur, row.request_id)
