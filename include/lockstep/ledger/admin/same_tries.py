"""Finds whether two Airflows share the ledger without names: a try of one task that two task instances have been."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from psycopg2 import ProgrammingError

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import maybe

if TYPE_CHECKING:
    from psycopg2.extensions import connection

Q = queries("lockstep.ledger.admin", "same_tries")


def same_tries(conn: connection) -> str | None:
    """Returns such a try in words, or None. Returns None if the login may not look, or there is no ledger, too."""
    with suppress(Refusal, ProgrammingError), transaction(conn, READER) as cur:
        cur.execute(Q["same_tries"])
        found = maybe(cur)
        return found and f"try {found.try_number} of {found.task_id} in {found.dag_id} run {found.dag_run_id}"
    return None
