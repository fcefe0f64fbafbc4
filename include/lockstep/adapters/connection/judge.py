"""Connects for a judgement: one transaction, whose session can neither end it nor keep what it does."""

from __future__ import annotations

from psycopg2.extensions import connection

JUDGE_ROLE = "lockstep_judge"


class JudgeConnection(connection):
    """A connection of one transaction. Once it is held, commit and rollback lead back to that point.

    A library that ends a transaction after each query then keeps the role and the view.
    """

    _is_held = False

    def hold(self) -> None:
        """Makes the transaction read-only, until the connection is closed. Earlier changes stay visible."""
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
