"""Finds out whether a pooler shares a server's backends between sessions, before a session sets anything."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg2.extensions import connection

LOOKS_FOR_A_POOLER = 5  # one alone is deceived if other clients take a backend and give it back in between
BACKEND = "select pg_catalog.pg_backend_pid()"
POOLED_BY_SESSION: set[str] = set()  # addresses of poolers that give each connection a backend of its own


def has_own_backend(conn: connection, dsn: str, open_other: Callable[[str], connection]) -> bool:
    """Returns True unless a pooler gives the connection another backend for each transaction.

    It sets nothing. Behind a pooler, whose handshake names no backend, it looks once for each address of this process.
    """
    if _backend(conn) == conn.info.backend_pid or dsn in POOLED_BY_SESSION:
        return True
    first, again, other = backends_of(conn, lambda: open_other(dsn))
    if first != again or first == other:
        return False
    POOLED_BY_SESSION.add(dsn)
    return True


def backends_of(conn: connection, open_other: Callable[[], connection]) -> tuple[int, int, int]:
    """Returns the backend of this connection, the same again, and that of another connection in between.

    The other one holds its transaction open meanwhile: two open transactions never have one backend. A pooler that
    shares backends gives the first one to the other connection, or a second one to this connection.
    """
    found = (0, 0, 0)
    for _ in range(LOOKS_FOR_A_POOLER):
        first = _backend(conn)
        with closing(open_other()) as other, other.cursor() as cur:
            cur.execute(BACKEND)
            (theirs,) = cur.fetchone()  # type: ignore[misc]
            found = (first, first if theirs == first else _backend(conn), int(theirs))
            other.rollback()
        if found[0] != found[1] or found[0] == found[2]:
            break
    return found


def _backend(conn: connection) -> int:
    with conn, conn.cursor() as cur:
        cur.execute(BACKEND)
        (found,) = cur.fetchone()  # type: ignore[misc]
        return int(found)
