"""Queries the ledger past the product, as its owner."""

from __future__ import annotations

from typing import Any

import psycopg2

from lockstep.core.errors import Unreachable


class Asker:
    """A connection that is kept, and opened anew when it is gone."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._conn: psycopg2.extensions.connection | None = None
        self._inherited: psycopg2.extensions.connection | None = None

    def ask(self, query: str, *values: Any) -> list[tuple]:
        """Runs one statement. Raises the product's own error if the server is away, for example during a restart."""
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
        """Leaves the connection alone in a child, not even closed, because the parent uses it."""
        self._inherited, self._conn = self._conn, None

    def close(self) -> None:
        """Closes the connection. The next question opens another."""
        if self._conn is not None:
            self._conn.close()
