"""Empties rejects: removes their bytes once they are older than their pipeline keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.faults import reach
from lockstep.ledger.admin import upkeep as ledger
from lockstep.steps.upkeep.busy import done_or_left

if TYPE_CHECKING:
    from psycopg2.extensions import connection

EMPTIED_PER_TRANSACTION = 1_000  # rejects of one transaction
REJECTS_LOCK_SECONDS = 2


def empty_rejects(conn: connection, *, most: int = EMPTIED_PER_TRANSACTION) -> tuple[int, list[str]]:
    """Empties old rejects of every pipeline. Returns their number, and the pipelines left out with the reason.

    The definition's `reject_retention` says how long they are kept. The database reads it itself.
    """
    with transaction(conn, READER) as cur:
        pipelines = ledger.rejecting(cur)
    return done_or_left(pipelines, "rejects", lambda pipeline: _empty(conn, pipeline, most))


def _empty(conn: connection, pipeline: str, most: int) -> int:
    """Empties portion by portion, each in a transaction of its own. Returns the number of rejects."""
    emptied = 0
    while True:
        with transaction(conn, PLANNER, lock_seconds=REJECTS_LOCK_SECONDS) as cur:
            portion = ledger.empty_old_rejects(cur, pipeline, most)
            reach("upkeep.rejects_emptied")
        emptied += portion
        if portion < most:
            return emptied
