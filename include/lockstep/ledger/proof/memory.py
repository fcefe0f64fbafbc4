"""Queries what the ledger should remember, and does not any more, for `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.ledger.proof.streams import streams_check
from lockstep.ledger.proof.verify import first_wrong
from lockstep.ledger.queries import queries

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.proof.verification import PromiseCheck

Q = queries("lockstep.ledger.proof", "memory")
MEMORY_CHECKS = {"owners of its tables are recorded": "owners_missing", "pauses were decided": "paused_undecided"}


def memory_checks(cur: cursor, pipeline: str) -> list[PromiseCheck]:
    """Checks that owners, pauses and streams are as the decisions say."""
    found = [
        first_wrong(cur, sql.SQL(Q[query]), {"pipeline": pipeline}).check(name) for name, query in MEMORY_CHECKS.items()
    ]
    return [*found, streams_check(cur, pipeline)]
