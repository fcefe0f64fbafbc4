"""Finds the attempt with which the next process of a run continues, from the ledger alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import STAGER, transaction
from lockstep.core.errors import BadData, Refusal, Superseded, printable
from lockstep.core.staging import AttemptId
from lockstep.core.states import AttemptState, BatchState
from lockstep.ledger.batch import attempts

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.core.planning.decisions import TaskRun

READY_STATES = frozenset({AttemptState.STAGED, AttemptState.VALIDATED, AttemptState.COMMITTED})


@dataclass(frozen=True, slots=True)
class PickedUp:
    """A run's own attempt, the newest of its batch, and its state: one of `READY_STATES`."""

    attempt: AttemptId
    state: AttemptState


def require_planned(conn: connection, batch_id: int) -> None:
    """Requires a batch that waits to be read.

    Raises `Superseded` if it is committed, and `BadData` if it was abandoned.
    """
    with transaction(conn, STAGER) as cur:
        batch = attempts.lock_batch(cur, batch_id)
    if batch.state == BatchState.COMMITTED:
        raise Superseded(f"batch {batch_id} is already committed")
    if batch.state != BatchState.PLANNED:
        raise BadData(f"batch {batch_id} was {batch.state}", next_command=f"lockstep batch {batch_id}")


def pick_up(conn: connection, batch_id: int, task_run: TaskRun) -> PickedUp:
    """Returns the attempt that this run's earlier task left behind.

    Raises `Superseded` when the newest attempt belongs to another run or is not ready. Raises `BadData` with its reason
    when it failed, and `Refusal` when there is none.
    """
    with transaction(conn, STAGER) as cur:
        newest = attempts.newest_attempt(cur, batch_id)
    if newest is None:
        raise Refusal(f"batch {batch_id} has no attempt yet", next_command=f"lockstep batch {batch_id}")
    if (newest.dag_id, newest.dag_run_id) != (task_run.dag_id, task_run.dag_run_id):
        raise Superseded(f"batch {batch_id} is now at attempt {newest.token}, of {newest.owner}")
    if newest.state == AttemptState.FAILED:
        raise BadData(printable(newest.error or ""), next_command=f"lockstep batch {batch_id}")
    if newest.state not in READY_STATES:
        raise Superseded(f"batch {batch_id} is now at attempt {newest.token}, which is {newest.state}")
    return PickedUp(AttemptId(batch_id, newest.token, newest.nonce), newest.state)
