"""Reads what commits have done to tables of the lake, for pages, metrics and `doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.text import size_of_bytes
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from datetime import timedelta

    from psycopg2.extensions import cursor

    from lockstep.ledger.views.reading import Document

Q = queries("lockstep.ledger.lake", "told")


def moves_of_batch(cur: cursor, batch_id: int) -> list[Document]:
    """Returns what the batch's commit did to each lake table: files, snapshot, and the metadata before and after."""
    cur.execute(Q["moves_of_batch"], {"batch_id": batch_id})
    return [row._asdict() | {"size": size_of_bytes(row.bytes)} for row in every(cur)]


def newest_moves(cur: cursor, pipeline: str) -> list[Document]:
    """Returns the same of the newest commit into each of the pipeline's lake tables."""
    cur.execute(Q["newest_batch"], {"pipeline": pipeline})
    row = maybe(cur)
    return moves_of_batch(cur, row.batch_id) if row else []


def longest_attempt(cur: cursor, pipeline: str) -> timedelta | None:
    """Returns how long the longest attempt of the newest hundred with lake tables was open, or None before the first."""
    cur.execute(Q["longest_attempt"], {"pipeline": pipeline})
    found: timedelta | None = one(cur).longest
    return found
