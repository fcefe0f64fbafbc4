"""Closes an attempt that cannot go on, with its reason, so that the next run may start."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import STAGER, transaction
from lockstep.adapters.postgres_errors import best_effort
from lockstep.core.errors import BadData, LockTimeout, Superseded, Unreachable
from lockstep.ledger.batch import attempts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg2.extensions import connection

    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context


# The outside system was away or in the way: the staged rows are as good as before.
TRY_AGAIN = (Superseded, LockTimeout, Unreachable)


@contextmanager
def failure_recorded(
    at: Context, attempt: AttemptId, *, but: tuple[type[Exception], ...] = (Superseded,)
) -> Iterator[None]:
    """Closes the attempt as failed when the block raises. An interrupt leaves it open for the next run to supersede.

    Errors in `but` leave it open, too. After those, the same step may be tried again on the same attempt.
    """
    try:
        yield
    except but:
        raise
    except Exception as error:
        with best_effort(), transaction(at.conn, STAGER) as cur:
            said = error.kept if isinstance(error, BadData) else str(error)
            attempts.close_failed(cur, attempt, said, by_data=isinstance(error, BadData))
        raise


def close_attempts_of_task(conn: connection, task_instance_id: str, why: str) -> int:
    """Closes what a task that is being ended has open, and returns the number of attempts.

    A closed attempt can neither be staged nor keep its lease, so its driver ends itself, wherever that is.
    """
    with transaction(conn, STAGER) as cur:
        found = attempts.open_attempts_of_task(cur, task_instance_id)
        for attempt in found:
            attempts.close_failed(cur, attempt, why, by_data=False)
    return len(found)
