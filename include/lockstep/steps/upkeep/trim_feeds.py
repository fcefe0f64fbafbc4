"""Trims the feeds of all tables by what they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.faults import reach
from lockstep.ledger.feed import trim as ledger
from lockstep.steps.upkeep.busy import done_or_left

if TYPE_CHECKING:
    from psycopg2.extensions import connection

TRIMMED_PER_TRANSACTION = 50_000  # changes of one transaction, unless one change set has more
TRIM_LOCK_SECONDS = 2


def trim_feeds(conn: connection, *, most: int = TRIMMED_PER_TRANSACTION) -> tuple[int, list[str]]:
    """Trims changes that are older than their feed keeps. Returns their number, and the feeds left out with the reason."""
    with transaction(conn, READER) as cur:
        tables = ledger.tables_with_images(cur)
    return done_or_left(tables, "feed", lambda table: _trim(conn, table, most))


def _trim(conn: connection, table: str, most: int) -> int:
    """Trims portion by portion, each in a transaction of its own. Returns the number of changes."""
    trimmed = 0
    while True:
        with transaction(conn, PLANNER, lock_seconds=TRIM_LOCK_SECONDS) as cur:
            portion = ledger.trim(cur, table, most)
            reach("upkeep.feed_trimmed")
        if not portion:
            return trimmed
        trimmed += portion
