"""Works on a history run in Spark: `spark-submit work_request.py PIPELINE work|rehearse KEY`.

It does the requests of the run with that key.
"""

from __future__ import annotations

import sys

from lockstep.adapters.folders import load
from lockstep.context.submitted import answer, live_with_holder, say_in_log, submitter
from lockstep.context.systems import engine_for, open_context
from lockstep.core.errors import Refusal
from lockstep.core.planning.history import RunOutcome
from lockstep.core.states import WorkState
from lockstep.steps.requests.work import preview_requests, work

HALVES = {"rehearse": preview_requests, "work": work}


def main(name: str, what: str, key: str) -> int:
    """Does the run's requests, and reports the outcome.

    Returns 0 with an answer if a task reads it, whatever it is. Otherwise returns 1 for an outcome that is blocked or
    refused.
    """
    live_with_holder()
    try:
        folder, at = load(name), open_context()
        outcome = HALVES[what](at, engine_for(folder, at), folder, key, submitter(in_one_process=True), say_in_log)
    except Refusal as refusal:
        outcome = RunOutcome(WorkState.REFUSED, f"{type(refusal).__module__}.{type(refusal).__name__}: {refusal}")
    return answer(outcome)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
