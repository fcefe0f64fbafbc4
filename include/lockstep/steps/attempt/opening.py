"""Says who may open an attempt, under the batch's row lock, and ends what is in its way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.adapters.connection.roles import become
from lockstep.adapters.postgres import STAGER, transaction
from lockstep.adapters.processes import is_gone
from lockstep.core.errors import Refusal, Superseded
from lockstep.core.planning.blocked import changed_definition
from lockstep.core.states import BatchState
from lockstep.ledger.batch.plan import last_documents
from lockstep.ledger.batch.ranges import end_older_tasks
from lockstep.ledger.changes.decisions import pipeline_of_batch

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.planning.decisions import Caller, TaskRun
    from lockstep.core.staging import AttemptId


def end_older(cur: Any, batch_id: int) -> None:
    """Ends tasks of older attempts, under the batch's lock.

    Their uncommitted work would block the new attempt's tasks (T15).
    """
    end_older_tasks(cur, batch_id)
    become(cur, STAGER)


def require_own(batch: Any, name: str) -> None:
    """Refuses a batch of another pipeline. A restored ledger draws batch ids again, and may give one to another."""
    if batch.pipeline != name:
        raise Superseded(f"batch {batch.batch_id} is of the pipeline {batch.pipeline}, not of {name}: plan again")


def require_own_attempt(conn: connection, attempt: AttemptId, name: str) -> None:
    """Refuses an attempt of another pipeline, or of no batch, before anything of it is changed.

    Airflow hands attempts from task to task in XCom, which everybody with edit rights on a DAG can write.
    """
    with transaction(conn, STAGER) as cur:
        pipeline = pipeline_of_batch(cur, attempt.batch_id)
    if pipeline != name:
        whose = f"is of the pipeline {pipeline}, not of {name}" if pipeline else "is not in the ledger"
        raise Superseded(f"batch {attempt.batch_id} {whose}: plan again")


def require_bound(cur: Any, pipeline: Pipeline, batch_id: int) -> None:
    """Refuses a definition that the batch's plan would refuse: a deployment may come between the two tasks (T8)."""
    changed = changed_definition(pipeline, last_documents(cur, pipeline.name, batch_id))
    if changed:
        raise Refusal(f"batch {batch_id}: {changed.reason}", next_command=changed.next_command)


def require_free(batch: Any, newest: Any, caller: Caller) -> None:
    """Applies the lease rule (T2): a batch that is closed, or held by a live or later caller, is refused."""
    if batch.state == BatchState.COMMITTED:
        raise Superseded(f"batch {batch.batch_id} is already committed")
    if batch.state != BatchState.PLANNED:
        raise Refusal(f"batch {batch.batch_id} was {batch.state}", next_command=f"lockstep run {batch.pipeline}")
    if newest and _is_older(caller.task_run, newest):
        raise Superseded(f"try {newest.try_number} of this task is at batch {batch.batch_id}, later than this one")
    holders = [(batch.owner, batch.lease_is_live)] + ([(newest.owner, newest.lease_is_live)] if newest else [])
    for owner, is_live in holders:
        if is_live and owner != caller.owner and not caller.take_over and not is_gone(owner):
            raise Superseded(f"batch {batch.batch_id} is held by {owner}")


def _is_older(task_run: TaskRun, newest: Any) -> bool:
    """Returns True if a later try of the same task has the newest attempt.

    Of two tries the later one continues, whichever came first. Otherwise they would take turns for ever.
    """
    ours = task_run.owner, task_run.dag_id, task_run.dag_run_id  # two Airflows may have the same ids
    if task_run.dag_id is None or (newest.owner, newest.dag_id, newest.dag_run_id) != ours:
        return False
    return bool((newest.try_number or 0) > (task_run.try_number or 0))
