"""Spark's door: `spark-submit spark_jobs/stage_batch.py PIPELINE BATCH` stages one planned batch and prints its attempt."""

from __future__ import annotations

import json
import sys

from lockstep.adapters.folders import load
from lockstep.adapters.processes import this_owner
from lockstep.adapters.spark import SparkEngine
from lockstep.cli.surroundings import surroundings
from lockstep.core.decisions import Caller
from lockstep.core.errors import Refusal, Superseded
from lockstep.steps.stage import stage


def main(name: str, batch_id: int) -> int:
    """Exit 0 with the attempt as JSON, also when somebody else is doing it; 1 with the reason."""
    folder, at = load(name), surroundings()
    engine = SparkEngine(folder, at.broker.bootstrap, at.dsn, at.broker.options)
    try:
        attempt = stage(at, engine, folder, batch_id, Caller(this_owner()))
    except Superseded as answer:
        sys.stdout.write(json.dumps({"superseded": str(answer)}) + "\n")
        return 0
    except Refusal as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 1
    finally:
        at.close()
    sys.stdout.write(json.dumps({"batch": attempt.batch_id, "attempt": attempt.token}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
