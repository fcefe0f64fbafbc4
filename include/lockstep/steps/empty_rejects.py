"""Empties rejects: removes their bytes once they are older than their pipeline keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.errors import LockTimeout
from lockstep.faults import reach
from lockstep.ledger import upkeep as ledger

if TYPE_CHECKING:
    from psycopg2.extensions import connection

MOST = 1_000  # rejects of one transaction
LOCK_SECONDS = 2


def empty_rejects(conn: connection, *, most: int = MOST) -> tuple[int, list[str]]:
    """Empties old rejects of every pipeline. Returns their number, and the pipelines left out with the reason.

    The definition's `reject_retention` says how long they are kept. The database reads it itself.
    """
    with transaction(conn, READER) as cur:
        pipelines = ledger.rejecting(cur)
    emptied, left = 0, []
    for pipeline in pipelines:
        try:
            emptied += _empty(conn, pipeline, most)
        except LockTimeout as refusal:
            left.append(f"rejects of {pipeline}: {refusal.message}")
    return emptied, left


def _empty(conn: connection, pipeline: str, most: int) -> int:
    """Empties portion by portion, each in a transaction of its own. Returns the number of rejects."""
    emptied = 0
    while True:
        with transaction(conn, PLANNER, lock_seconds=LOCK_SECONDS) as cur:
            portion = ledger.empty_old_rejects(cur, pipeline, most)
            reach("upkeep.rejects_emptied")
        emptied += portion
        if portion < most:
            return emptied
