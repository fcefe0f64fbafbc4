"""Spark's door to history: `spark-submit work_request.py PIPELINE work|rehearse KEY` does what the run of that key asks for."""

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
    """Exit 0 with an answer for the task that reads it, whatever it is; 1 where nobody reads it and it is no good news."""
    live_with_holder()
    try:
        folder, at = load(name), surroundings()
        outcome = HALVES[what](at, engine_for(folder, at), folder, key, caller(in_one_process=True), say)
    except Refusal as refusal:
        outcome = Outcome("refused", f"{type(refusal).__module__}.{type(refusal).__name__}: {refusal}")
    return answer(outcome)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
