"""Merges the parts of old batches, where a table by batch has many: each batch becomes one partition again."""

from __future__ import annotations

from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.core.errors import LockTimeout
from lockstep.faults import reach
from lockstep.ledger.batch import parts
from lockstep.steps.upkeep.busy import left_out

if TYPE_CHECKING:
    from psycopg2.extensions import connection

PARTS_KEPT = 500  # of a table. More of them slow down the plans of queries that name no batch.
MERGE_LOCK_SECONDS = 0.5  # readers of the table delay the end of a merge


def merge_parts(conn: connection, *, kept: int = PARTS_KEPT) -> tuple[list[str], list[str]]:
    """Merges the oldest batches of each table by batch until so many parts are left. Each has its own transaction.

    Returns the partitions that were merged, and a line for each that was left. A batch that a replay has taken rows
    from stays in parts.
    """
    with transaction(conn, COMMITTER) as cur:
        tables = parts.tables_of_parts(cur)
    merged: list[str] = []
    left: list[str] = []
    for table in tables:
        over = table.parts - kept
        for whole, batch_id, its_parts in zip(table.partitions, table.batches, table.each, strict=True):
            if over <= 0:
                break
            with left_out(f"the parts of {whole}", left):
                try:
                    is_merged = _merge(conn, table.target, whole, batch_id)
                except LockTimeout:
                    left.append(f"the parts of {whole}: a reader of {table.target} is in the way")
                    break
                if is_merged:
                    merged.append(whole)
                    over -= its_parts - 1
    return merged, left


def _merge(conn: connection, target: str, whole: str, batch_id: int) -> bool:
    """Copies the batch's rows into one table, frozen, and puts it in place of the parts.

    They go by way of a file, for one connection reads and writes them in one transaction.
    """
    with TemporaryFile() as rows, transaction(conn, COMMITTER, lock_seconds=MERGE_LOCK_SECONDS) as cur:
        merged = parts.begin_merge(cur, target, whole)
        if merged is None:
            return False
        columns = parts.copied_columns(cur, merged)
        parts.read_rows(cur, target, batch_id, columns, rows)
        rows.seek(0)
        parts.fill_merged(cur, merged, columns, rows)
        reach("upkeep.parts_copied")
        if not parts.end_merge(cur, target, whole, merged):
            cur.connection.rollback()
            return False
    return True
