"""Tells feeds what a commit does: opens a set per target, and numbers the sets last of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import errors

from lockstep.core.errors import BadData, Refusal
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import one

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.feed", "changes")
ERASURE = "an erasure"  # never the person's own words: the set stays when its images are trimmed


def open_change_set(cur: cursor, pipeline: str, table: str, batch_id: int, stream_id: int | None = None) -> None:
    """Opens the set of a commit for one target, before its first row is written (E10).

    Raises `BadData` if the table's changes cannot be caught.
    """
    cur.execute(Q["open_changes"], {"target": table, "batch_id": batch_id, "stream_id": stream_id})
    _refuse_missed(cur, f"{pipeline}: batch {batch_id}", pipeline, table)


def open_emission_set(cur: cursor, pipeline: str, table: str) -> None:
    """Opens the set of windows that are shown for the first time, before their first row is written.

    Raises `BadData` if the table's changes cannot be caught.
    """
    cur.execute(Q["open_emission"], {"target": table})
    _refuse_missed(cur, pipeline, pipeline, table)


def _refuse_missed(cur: cursor, where: str, pipeline: str, table: str) -> None:
    misses = one(cur).misses
    if misses:
        raise BadData(
            f"{where}: the changes of {table} cannot be announced: {misses}; lockstep migrate {pipeline} mends it",
            next_command=f"lockstep migrate {pipeline}",
        )


def hold_trimming(cur: cursor, table: str) -> None:
    """Waits until nothing trims the feed of a table. Nothing does until this transaction ends."""
    cur.execute(Q["hold_trimming"], {"target": table})


def open_erasure_set(cur: cursor, pipeline: str, table: str) -> None:
    """Opens the set by which an erasure tells a feed of the rows that it deletes. Nothing trims the feed meanwhile.

    Raises `Refusal` if the table's changes cannot be caught.
    """
    hold_trimming(cur, table)
    try:
        cur.execute(Q["manual_change"], {"target": table, "why": ERASURE})
    except errors.CheckViolation as refused:
        raise Refusal(
            f"{pipeline}: {refused.diag.message_primary}; nothing was erased",
            next_command=f"lockstep migrate {pipeline}",
        ) from None


def number_erasure_sets(cur: cursor) -> None:
    """Numbers an erasure's sets, so that their images can be blanked. The feeds stay locked until COMMIT."""
    cur.execute(Q["number_changes"])


def net_changes(cur: cursor) -> None:
    """Replaces the open sets by their net effect: one change per key, and none where the values came back (E11)."""
    cur.execute(Q["net_changes"])


def draw_numbers(cur: cursor) -> None:
    """Numbers the open sets, after what waits for COMMIT has been checked (E12). The feeds stay locked until COMMIT."""
    cur.execute(Q["ask_deferred"])
    cur.execute(Q["number_changes"])
