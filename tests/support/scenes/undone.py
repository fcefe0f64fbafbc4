"""Runs a statement against a scene that other tests use, too: what it has changed is taken back."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg2

from lockstep.adapters.postgres import transaction
from lockstep.core.health.ledger_findings import OF_A_RUN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg2.extensions import connection


class _TakenBack(Exception):  # noqa: N818 - it is no error
    pass


@contextmanager
def undone(conn: connection, role: str) -> Iterator[Any]:
    """Runs a transaction under the role, checks its constraints as a commit does, and takes it back."""
    with suppress(_TakenBack), transaction(conn, role) as cur:
        yield cur
        cur.execute("set constraints all immediate")
        raise _TakenBack


def roles_that_may(conn: connection, statement: str, values: dict[str, Any] | None = None) -> set[str]:
    """Returns the roles of a run whose rights suffice for the statement, which is taken back."""
    may = set()
    for role in OF_A_RUN:
        try:
            with undone(conn, role) as cur:
                cur.execute(statement, values)
        except psycopg2.errors.InsufficientPrivilege:
            continue
        may.add(role)
    return may
