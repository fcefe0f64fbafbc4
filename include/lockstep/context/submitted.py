"""Reads which Airflow task has submitted this Spark driver, and answers it. Both use the environment alone."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.processes import end_with, this_owner
from lockstep.core.planning.decisions import Caller, TaskRun
from lockstep.core.settings import ENVIRONMENT
from lockstep.core.states import WorkState

if TYPE_CHECKING:
    from lockstep.core.planning.history import RunOutcome

HOLDER, TASK_INSTANCE, TAKE_OVER = "LOCKSTEP_HOLDER", "LOCKSTEP_TASK_INSTANCE", "LOCKSTEP_TAKE_OVER"
RETRY, ANSWER = "LOCKSTEP_RETRY", "LOCKSTEP_ANSWER"


def live_with_holder() -> None:
    """Ends this process from now on when the task ends that started it.

    Does nothing if no task did.
    """
    if holder := ENVIRONMENT.get(HOLDER):
        end_with(holder)


def submitter(*, in_one_process: bool = False) -> Caller:
    """Returns the Airflow run that submitted us, by the variables that Airflow gives its tasks.

    Returns this very process if there is no such run.
    """
    dag_id, run_id = ENVIRONMENT.get("AIRFLOW_CTX_DAG_ID"), ENVIRONMENT.get("AIRFLOW_CTX_DAG_RUN_ID")
    if not dag_id or not run_id:
        return Caller(this_owner())
    task_instance, try_number = ENVIRONMENT.get(TASK_INSTANCE), ENVIRONMENT.get("AIRFLOW_CTX_TRY_NUMBER")
    task_run = TaskRun(dag_id, run_id, task_instance, int(try_number) if try_number else None)
    return Caller(
        task_run.owner or this_owner(),
        take_over=ENVIRONMENT.get(TAKE_OVER) == "1",
        retry=ENVIRONMENT.get(RETRY) == "1",
        task_run=task_run,
        in_one_process=in_one_process,
    )


def answer(outcome: RunOutcome) -> int:
    """Reports the outcome: to a task in the file that it has named, to a person on standard output.

    Returns the exit code.
    """
    say_in_log(f"{outcome.state}: {outcome.reason}")
    if place := ENVIRONMENT.get(ANSWER):
        Path(place).write_text(json.dumps(asdict(outcome)), encoding="utf-8")
        return 0
    return int(outcome.state in {WorkState.BLOCKED, WorkState.REFUSED})


def say_in_log(line: str) -> None:
    """Writes one line into the task's log, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
