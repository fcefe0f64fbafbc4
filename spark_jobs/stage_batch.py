"""Stages a planned batch in Spark: `spark-submit spark_jobs/stage_batch.py PIPELINE BATCH`.

The environment names the servers.
"""

from __future__ import annotations

import sys

from lockstep.adapters.folders import load
from lockstep.context.submitted import live_with_holder, say_in_log, submitter
from lockstep.context.systems import engine_for, open_context
from lockstep.core.errors import Refusal, Superseded
from lockstep.steps.batch.stage import stage


def main(name: str, batch: str) -> int:
    """Stages the batch. Returns 0 when it is staged, even if another caller is doing it.

    Returns 1 otherwise, with the reason on one line.
    """
    live_with_holder()
    batch_id = int(batch)
    try:
        folder, at = load(name), open_context()
        attempt = stage(at, engine_for(folder, at), folder, batch_id, submitter())
    except Superseded as answer:
        say_in_log(f"superseded: {answer}")
        return 0
    except Refusal as refusal:
        say_in_log(f"refused: {refusal}")
        return 1
    say_in_log(f"batch {batch_id} is staged by attempt {attempt.token}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
