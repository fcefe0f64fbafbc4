"""Names the errors of Postgres's driver, so that steps and engine catch Lockstep's own."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg2
from psycopg2 import errors

from lockstep.adapters.postgres_words import copied_row, first_line, too_long, without_values
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


class StatementRefused(Exception):  # noqa: N818 - it is an answer, not a fault
    """The server's refusal of a statement. `str()` is the driver's text, and may quote values of rows.

    `logged` is the part for the log, and `values` is the rest. `constraint` is None if none was violated. `copied_row` is
    the number of the row that a COPY was refused for. `place` names its record, if it is known. `too_long` says the
    sizes if a value is too long for an index.
    """

    def __init__(self, error: psycopg2.DatabaseError) -> None:
        super().__init__(str(error))
        self.logged, self.values = without_values(error)
        self.constraint: str | None = error.diag.constraint_name
        self.copied_row = copied_row(error)
        self.place = ""
        self.too_long = too_long(error)

    @property
    def by_constraint(self) -> str:
        """Returns what goes behind "refuses the rows" in a sentence: the constraint, or nothing."""
        return f" by {self.constraint}" if self.constraint else ""


class NotAllowed(StatementRefused):
    """The server's refusal because a role lacks a right, or a policy denies it. It quotes no value of a row."""

    def __init__(self, error: psycopg2.DatabaseError) -> None:
        super().__init__(error)
        self.logged, self.values = first_line(error), ""


@contextmanager
def server_refusals() -> Iterator[None]:
    """Turns the server's refusal of a statement into `StatementRefused`, or `NotAllowed` if a right is missing.

    Passes on a lost connection, and a lock that another transaction holds. The rows are not the cause of these.
    """
    try:
        yield
    except errors.ProgramLimitExceeded as error:  # the driver counts it among lost connections
        raise StatementRefused(error) from error
    except psycopg2.OperationalError:
        raise
    except errors.InsufficientPrivilege as error:
        raise NotAllowed(error) from error
    except psycopg2.DatabaseError as error:
        raise StatementRefused(error) from error


def best_effort() -> AbstractContextManager[None]:
    """Ends the block without an error when the database refuses or is away. Use it for work that may stay undone."""
    return suppress(Refusal, psycopg2.Error)
