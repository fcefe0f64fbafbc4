"""Keeps what a driver answers to the Airflow task that has submitted it, and reads it in the task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2.extras import Json

from lockstep.core.planning.requests import RunOutcome
from lockstep.core.states import WorkState
from lockstep.ledger.queries import queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

    from lockstep.core.planning.decisions import TaskRun

Q = queries("lockstep.ledger.batch", "answers")


def insert_answer(cur: cursor, task_run: TaskRun, outcome: Mapping[str, str | None]) -> None:
    """Keeps the outcome for this try of the task. The first answer of a try stays."""
    cur.execute(Q["insert_answer"], _key(task_run) | {"outcome": Json(outcome)})


def answer_to(cur: cursor, task_run: TaskRun) -> RunOutcome | None:
    """Returns the outcome for this try of the task, or None if its driver has not answered."""
    cur.execute(Q["answer_to"], _key(task_run))
    row = cur.fetchone()
    if row is None:
        return None
    found = row[0]
    return RunOutcome(WorkState(found["state"]), found["reason"], found["next_command"])


def _key(task_run: TaskRun) -> dict[str, str | int | None]:
    return {"task_instance_id": task_run.task_instance_id, "try_number": task_run.try_number or 0}
