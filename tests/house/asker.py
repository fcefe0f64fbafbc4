"""Questions to the ledger, asked past the product as its owner."""

from __future__ import annotations

import psycopg2

from lockstep.core.errors import Unreachable


class Asker:
    """A connection that is kept, and opened anew when it is gone."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._conn: psycopg2.extensions.connection | None = None
        self._inherited: psycopg2.extensions.connection | None = None

    def ask(self, query: str, *values: object) -> list[tuple]:
        """One statement; a server that is away, as while it is restarted, is told as the product tells it."""
        try:
            if self._conn is None or self._conn.closed:
                self._conn = psycopg2.connect(self._dsn, options="-c lock_timeout=20s")  # a failure, and no hang
                self._conn.autocommit = True
            with self._conn.cursor() as cur:
                cur.execute("set role lockstep_owner")
                cur.execute(query, values)
                return cur.fetchall() if cur.description else []
        except psycopg2.errors.LockNotAvailable:
            raise
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise Unreachable(str(error)) from error

    def forked(self) -> None:
        """In a child: the connection is left alone, not even closed, because the parent speaks on it."""
        self._inherited, self._conn = self._conn, None

    def close(self) -> None:
        """The connection ends; the next question opens another."""
        if self._conn is not None:
            self._conn.close()
