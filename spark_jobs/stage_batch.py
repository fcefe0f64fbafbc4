"""Stages a planned batch in Spark: `spark-submit spark_jobs/stage_batch.py PIPELINE BATCH`.

The environment names the servers.
"""

from __future__ import annotations

import sys

from lockstep.adapters.folders import load
from lockstep.cli.driver import caller, live_with_holder, say
from lockstep.cli.surroundings import engine_for, surroundings
from lockstep.core.errors import Refusal, Superseded
from lockstep.steps.stage import stage


def main(name: str, batch: str) -> int:
    """Stages the batch. Returns 0 when it is staged, even if another caller is doing it.

    Returns 1 otherwise, with the reason on one line.
    """
    live_with_holder()
    batch_id = int(batch)
    try:
        folder, at = load(name), surroundings()
        attempt = stage(at, engine_for(folder, at), folder, batch_id, caller())
    except Superseded as answer:
        say(f"superseded: {answer}")
        return 0
    except Refusal as refusal:
        say(f"refused: {refusal}")
        return 1
    say(f"batch {batch_id} is staged by attempt {attempt.token}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
