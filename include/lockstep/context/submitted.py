"""Reads from a Spark driver's arguments which Airflow task it works for, and answers that task in the ledger."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from lockstep.adapters.processes import end_with, this_owner
from lockstep.core.errors import Refusal, Unreachable, said_in
from lockstep.core.planning.decisions import Caller, TaskRun
from lockstep.core.planning.requests import RunOutcome
from lockstep.core.settings import ENVIRONMENT
from lockstep.core.states import WorkState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.steps.context import Context

HOLDER = "LOCKSTEP_HOLDER"
FOR, TAKE_OVER, RETRY = "--for", "--take-over", "--retry"
FOR_PARTS = (6, 7)  # the last one is the Airflow's name, where it has one
READABLE = ":+~"  # in Airflow's run ids, and in no need of quotes


def live_with_holder() -> None:
    """Ends this process from now on when the task ends that started it.

    Does nothing on a cluster, where no task is near: a driver whose lease is lost ends itself.
    """
    if holder := ENVIRONMENT.get(HOLDER):
        end_with(holder)


def submitted_for(caller: Caller) -> list[str]:
    """Returns the arguments that name the caller's task and its permissions. None of them is secret."""
    run = caller.task_run
    parts = [run.dag_id, run.dag_run_id, run.task_instance_id, run.try_number, run.task_id, run.map_index]
    parts += [run.airflow] if run.airflow else []
    named = "/".join("" if part is None else quote(str(part), safe=READABLE) for part in parts)
    flags = ((TAKE_OVER, caller.take_over), (RETRY, caller.retry))
    return [FOR, named, *(flag for flag, is_given in flags if is_given)]


def submitter(arguments: Sequence[str], *, in_one_process: bool = False) -> Caller:
    """Returns the Airflow run that these arguments name, or this very process if they name none."""
    if FOR not in arguments:
        return Caller(this_owner())
    parts = [unquote(part) for part in "".join(arguments[arguments.index(FOR) + 1 :][:1]).split("/")]
    if (
        len(parts) not in FOR_PARTS
        or not all(parts[:2])
        or not all(each.isdecimal() for each in (parts[3], parts[5]) if each)
    ):
        raise Refusal(f"{FOR} takes DAG/RUN/INSTANCE/TRY/TASK/INDEX, and not {'/'.join(parts)!r}")
    instance, try_number, task_id, index, airflow = (part or None for part in [*parts[2:], ""][:5])
    number, place = (int(each) if each else None for each in (try_number, index))
    task_run = TaskRun(parts[0], parts[1], instance, number, task_id, place, airflow)
    return Caller(
        task_run.owner or this_owner(),
        take_over=TAKE_OVER in arguments,
        retry=RETRY in arguments,
        task_run=task_run,
        in_one_process=in_one_process,
    )


def outcome_of(refusal: Refusal) -> RunOutcome:
    """Returns the outcome of work that was refused. Its reason is the line by which the error names itself."""
    return RunOutcome(WorkState.REFUSED, f"{type(refusal).__module__}.{type(refusal).__name__}: {refusal}")


def answer(at: Context, caller: Caller, outcome: RunOutcome) -> int:
    """Reports the outcome: to a task in the ledger, to a person on standard output.

    Returns the exit code. It is 0 for a task that can read its answer.
    """
    from lockstep.adapters.postgres import STAGER, transaction
    from lockstep.ledger.batch import answers

    say_in_log(f"{outcome.state}: {said_in(outcome.reason) or outcome.reason}")
    if caller.task_run.task_instance_id is None:
        return int(outcome.state in {WorkState.BLOCKED, WorkState.REFUSED})
    try:
        with transaction(at.conn, STAGER) as cur:
            answers.insert_answer(cur, caller.task_run, asdict(outcome))
    except Unreachable as away:
        say_in_log(f"not answered: {away}")
        return 1
    return 0


def say_in_log(line: str) -> None:
    """Writes one line into the driver's log, at once. Near its task, that is the task's log."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
