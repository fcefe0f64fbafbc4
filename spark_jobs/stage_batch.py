"""Spark's door: `spark-submit spark_jobs/stage_batch.py PIPELINE BATCH` stages a planned batch; the environment says where."""

from __future__ import annotations

import os
import sys

from lockstep.adapters.folders import load
from lockstep.adapters.processes import end_with, this_owner
from lockstep.adapters.spark import SparkEngine
from lockstep.cli.surroundings import registry, surroundings
from lockstep.core.decisions import Caller, TaskRun
from lockstep.core.errors import Refusal, Superseded
from lockstep.steps.stage import stage


def main(name: str, batch_id: int) -> int:
    """Exit 0 when the batch is staged, also when somebody else is doing it; 1 with the reason on one line."""
    if holder := os.environ.get("LOCKSTEP_HOLDER"):
        end_with(holder)
    try:
        folder, at = load(name), surroundings()
        engine = SparkEngine(folder, at.broker.bootstrap, at.dsn, at.broker.options, registry())
        attempt = stage(at, engine, folder, batch_id, _caller())
    except Superseded as answer:
        _say(f"superseded: {answer}")
        return 0
    except Refusal as refusal:
        _say(f"refused: {refusal}")
        return 1
    _say(f"batch {batch_id} is staged by attempt {attempt.token}")
    return 0


def _caller() -> Caller:
    """The Airflow run that submitted us, by the variables that Airflow gives its tasks; else this very process."""
    dag_id, run_id = os.environ.get("AIRFLOW_CTX_DAG_ID"), os.environ.get("AIRFLOW_CTX_DAG_RUN_ID")
    if not dag_id or not run_id:
        return Caller(this_owner())
    task_instance, try_number = os.environ.get("LOCKSTEP_TASK_INSTANCE"), os.environ.get("AIRFLOW_CTX_TRY_NUMBER")
    task_run = TaskRun(dag_id, run_id, task_instance, int(try_number) if try_number else None)
    take_over = os.environ.get("LOCKSTEP_TAKE_OVER") == "1"
    return Caller(task_run.owner or this_owner(), take_over=take_over, task_run=task_run)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
