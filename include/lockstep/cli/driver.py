"""Reads which Airflow task has submitted this Spark driver, and answers it. Both use the environment alone."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters.processes import end_with, this_owner
from lockstep.core.decisions import Caller, TaskRun

if TYPE_CHECKING:
    from lockstep.core.history import Outcome

HOLDER, TASK_INSTANCE, TAKE_OVER = "LOCKSTEP_HOLDER", "LOCKSTEP_TASK_INSTANCE", "LOCKSTEP_TAKE_OVER"
RETRY, ANSWER = "LOCKSTEP_RETRY", "LOCKSTEP_ANSWER"


def live_with_holder() -> None:
    """Ends this process from now on when the task ends that started it.

    Does nothing if no task did.
    """
    if holder := os.environ.get(HOLDER):
        end_with(holder)


def caller(*, in_one_process: bool = False) -> Caller:
    """Returns the Airflow run that submitted us, by the variables that Airflow gives its tasks.

    Returns this very process if there is no such run.
    """
    dag_id, run_id = os.environ.get("AIRFLOW_CTX_DAG_ID"), os.environ.get("AIRFLOW_CTX_DAG_RUN_ID")
    if not dag_id or not run_id:
        return Caller(this_owner())
    task_instance, try_number = os.environ.get(TASK_INSTANCE), os.environ.get("AIRFLOW_CTX_TRY_NUMBER")
    task_run = TaskRun(dag_id, run_id, task_instance, int(try_number) if try_number else None)
    return Caller(
        task_run.owner or this_owner(),
        take_over=os.environ.get(TAKE_OVER) == "1",
        retry=os.environ.get(RETRY) == "1",
        task_run=task_run,
        in_one_process=in_one_process,
    )


def answer(outcome: Outcome) -> int:
    """Reports the outcome: to a task in the file that it has named, to a person on standard output.

    Returns the exit code.
    """
    say(f"{outcome.state}: {outcome.reason}")
    if place := os.environ.get(ANSWER):
        Path(place).write_text(json.dumps(asdict(outcome)), encoding="utf-8")
        return 0
    return int(outcome.state in {"blocked", "refused"})


def say(line: str) -> None:
    """Writes one line into the task's log, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
