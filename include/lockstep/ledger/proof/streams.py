"""Queries where streams begin and end, and the decisions that say so, for `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.ledger.proof.verify import first_wrong
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.proof.verification import PromiseCheck

Q = queries("lockstep.ledger.proof", "streams")


def streams_check(cur: cursor, pipeline: str) -> PromiseCheck:
    """Checks that each stream begins and ends where a decision says, or where its log goes on."""
    wrong = first_wrong(cur, sql.SQL(Q["undecided"]), {"pipeline": pipeline})
    cur.execute(Q["counts"], {"pipeline": pipeline})
    found = one(cur)
    return wrong.check("streams begin and end by decision", told=f"{found.streams} streams, {found.closed} closed")


def beginnings(cur: cursor, streams: Sequence[int], start: str) -> list[Any]:
    """Returns, per log of these streams, what lies unread below its beginning, and how far upkeep says it has come.

    `start` is that of a pipeline without a batch.
    """
    cur.execute(Q["beginnings"], {"streams": list(streams), "start": start})
    return every(cur)
