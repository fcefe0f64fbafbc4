"""Shows the rows of one attempt to the role that judges them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from psycopg2 import errors

from lockstep.core.errors import Refusal, Superseded
from lockstep.ledger.queries import queries

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger.staging", "judged")
JUDGED_ROWS = "pg_temp.judged_rows"
EVERY_JUDGED_ROW = "select * from pg_temp.judged_rows"
NOT_NEWEST = "newest_attempt"


def show_to_judge(cur: cursor, attempt: AttemptId) -> None:
    """Lets `lockstep_judge` read the attempt's rows as `JUDGED_ROWS`, within this transaction.

    Raises `Superseded` if the attempt is not the batch's newest, or is not staged. Raises `Refusal` if its rows are
    hidden and their view is gone.
    """
    try:
        cur.execute(Q["show_to_judge"], asdict(attempt))
    except errors.CheckViolation as error:
        kind = Superseded if error.diag.constraint_name == NOT_NEWEST else Refusal
        said = f"batch {attempt.batch_id} is not judged: {error.diag.message_primary}"
        raise kind(said, next_command=f"lockstep batch {attempt.batch_id}") from None
