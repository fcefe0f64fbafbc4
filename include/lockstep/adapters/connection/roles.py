"""Lets a session take on a role, and says in one line which role its login lacks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from psycopg2 import errors

from lockstep.adapters.postgres_words import first_line
from lockstep.core.errors import MIGRATE, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg2.extensions import cursor


def become(cur: cursor, role: str) -> None:
    """Continues under another role, until the transaction ends. Raises `Refusal` if the login may not."""
    with granted(cur, role):
        cur.execute("select set_config('role', %s, true)", (role,))


@contextmanager
def granted(
    cur: cursor, role: str | None, called: str = "the ledger's database", variable: str = "LOCKSTEP_DSN"
) -> Iterator[None]:
    """Refuses a login that may not take on the role, and a server that does not know it.

    The message names the database by these words, and the variable with its address.
    """
    try:
        yield
    except errors.InsufficientPrivilege as error:
        login = cur.connection.info.user
        raise Refusal(
            f"{called} does not let {login} take on the role {role}: {first_line(error)}",
            next_command=f"grant {role} to {login}, or set {variable} to a login that has it",
        ) from None
    except errors.InvalidParameterValue as error:
        raise Refusal(f"{called} has no role {role}: {first_line(error)}", next_command=MIGRATE) from None
