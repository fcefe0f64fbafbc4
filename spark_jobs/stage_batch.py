"""Stages a planned batch in Spark: `spark-submit spark_jobs/stage_batch.py PIPELINE BATCH [--for DAG/RUN/INSTANCE/TRY]`.

The environment names the servers. On a cluster the file of LOCKSTEP_ENVIRONMENT does.
"""

from __future__ import annotations

import sys

from lockstep.adapters.folders import load
from lockstep.context.environment import load_environment
from lockstep.context.submitted import answer, live_with_holder, outcome_of, say_in_log, submitter
from lockstep.context.systems import engine_for, open_context
from lockstep.core.errors import Refusal, Superseded
from lockstep.core.planning.requests import RunOutcome
from lockstep.core.states import WorkState
from lockstep.steps.batch.stage import stage


def main(name: str, batch: str, *arguments: str) -> int:
    """Stages the batch. Returns 0 when it is staged, even if another caller is doing it.

    Returns 1 otherwise, with the reason on one line. Answers the task that it works for.
    """
    live_with_holder()
    try:
        load_environment()
        caller, at = submitter(arguments), open_context()
    except Refusal as refusal:
        say_in_log(f"refused: {refusal}")
        return 1
    code = 0
    try:
        folder = load(name)
        attempt = stage(at, engine_for(folder, at), folder, int(batch), caller)
        outcome = RunOutcome(WorkState.DONE, f"batch {batch} is staged by attempt {attempt.token}")
    except Refusal as refusal:
        outcome, code = outcome_of(refusal), int(not isinstance(refusal, Superseded))
    answer(at, caller, outcome)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
