"""Works on a history run in Spark: `spark-submit work_request.py PIPELINE work|rehearse KEY [--for ...]`.

It does the requests of the run with that key.
"""

from __future__ import annotations

import sys

from lockstep.adapters.folders import load
from lockstep.context.environment import load_environment
from lockstep.context.submitted import answer, live_with_holder, outcome_of, say_in_log, submitter
from lockstep.context.systems import engine_for, open_context
from lockstep.core.errors import Refusal
from lockstep.steps.requests.work import preview_requests, work

HALVES = {"rehearse": preview_requests, "work": work}


def main(name: str, what: str, key: str, *arguments: str) -> int:
    """Does the run's requests, and reports the outcome.

    Returns 0 with an answer if a task reads it, whatever it is. Otherwise returns 1 for an outcome that is blocked or
    refused.
    """
    live_with_holder()
    try:
        load_environment()
        caller, at = submitter(arguments, in_one_process=True), open_context()
    except Refusal as refusal:
        say_in_log(f"refused: {refusal}")
        return 1
    try:
        folder = load(name)
        outcome = HALVES[what](at, engine_for(folder, at), folder, key, caller, say_in_log)
    except Refusal as refusal:
        outcome = outcome_of(refusal)
    return answer(at, caller, outcome)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
