"""Connects for a judgement: one transaction, whose session can neither end it nor keep what it does."""

from __future__ import annotations

from psycopg2.extensions import connection

JUDGE = "lockstep_judge"


class JudgeConnection(connection):
    """A connection whose commit and rollback, once it is held, lead back to one point of its only transaction.

    A library that ends a transaction after each query then keeps the role and the view of the judgement.
    """

    _is_held = False

    def hold(self) -> None:
        """Makes the transaction read-only, until the connection is closed. What was done before stays in sight."""
        with self.cursor() as cur:
            cur.execute("set transaction read only; savepoint held")
        self._is_held = True

    def commit(self) -> None:
        """Commits, or goes back to where the transaction was held."""
        if self._is_held:
            self._go_back()
        else:
            super().commit()

    def rollback(self) -> None:
        """Rolls back, but no further than to where the transaction was held."""
        if self._is_held:
            self._go_back()
        else:
            super().rollback()

    def _go_back(self) -> None:
        with self.cursor() as cur:
            cur.execute("rollback to savepoint held")
