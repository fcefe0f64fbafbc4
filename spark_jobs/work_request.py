"""Works on a history run in Spark: `spark-submit work_request.py PIPELINE work|rehearse KEY`.

It does the requests of the run with that key.
"""

from __future__ import annotations

import sys

from lockstep.adapters.folders import load
from lockstep.cli.driver import answer, caller, live_with_holder, say
from lockstep.cli.surroundings import engine_for, surroundings
from lockstep.core.errors import Refusal
from lockstep.core.history import Outcome
from lockstep.steps.work import rehearse, work

HALVES = {"rehearse": rehearse, "work": work}


def main(name: str, what: str, key: str) -> int:
    """Does the run's requests, and reports the outcome.

    Returns 0 with an answer if a task reads it, whatever it is. Otherwise returns 1 for an outcome that is blocked or
    refused.
    """
    live_with_holder()
    try:
        folder, at = load(name), surroundings()
        outcome = HALVES[what](at, engine_for(folder, at), folder, key, caller(in_one_process=True), say)
    except Refusal as refusal:
        outcome = Outcome("refused", f"{type(refusal).__module__}.{type(refusal).__name__}: {refusal}")
    return answer(outcome)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
