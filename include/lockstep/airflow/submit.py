"""Builds the tasks that run on Spark: the driver's settings before, and the attempt's state after."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection

from lockstep.adapters.airflow.names import AirflowException
from lockstep.adapters.folders import PIPELINES_VARIABLE
from lockstep.airflow.bundle import root_beside
from lockstep.airflow.door import measure_seconds, push, task_caller
from lockstep.airflow.job import SparkJobOperator, is_warm
from lockstep.airflow.steps import named_batch
from lockstep.context.environment import environment_set
from lockstep.context.submitted import HOLDER
from lockstep.core.errors import Refusal, Superseded, said_in
from lockstep.installed import DISTRIBUTION, SHIPPED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockstep.airflow.door import Door
    from lockstep.core.planning.requests import RunOutcome
    from lockstep.steps.context import Context

JOBS = "spark_jobs"


def job(name: str) -> str:
    """Returns the file that spark-submit runs: in the checkout, else in the installed package."""
    place = SHIPPED / JOBS / name
    if not place.is_file():
        raise Refusal(f"{place} is missing", next_command=f"pip install --force-reinstall --no-deps {DISTRIBUTION}")
    return str(place)


def code_archive(spark_conn_id: str, dag_file: str, pipeline: str) -> str:
    """Returns engine and pipelines as a zip for executors on other machines, or an empty string if none is needed."""
    from lockstep.engine import shipping

    connection = Connection.get(spark_conn_id)
    if (connection.host or "").startswith("local") or is_warm(connection):
        return ""
    root = root_beside(dag_file, pipeline)
    with environment_set({PIPELINES_VARIABLE: str(root)} if root else {}):
        return shipping.archive()


def driver_jvm_options() -> str:
    """Returns the options of the driver's JVM."""
    from lockstep.engine.spark import jvm

    return jvm.driver_options()


MACROS = {
    "lockstep_job": job,
    "lockstep_archive": code_archive,
    "lockstep_driver_options": driver_jvm_options,
}


def submitted(door: Door, spark_conn_id: str, job: str, arguments: Sequence[str], **task: Any) -> SparkJobOperator:
    """Returns a task that runs one of our jobs on Spark, with the pipeline's name and these arguments."""
    return SparkJobOperator(
        conn_id=spark_conn_id,
        name=f"lockstep {door.pipeline}",
        application=f"{{{{ lockstep_job('{job}') }}}}",
        application_args=[door.pipeline, *arguments],
        py_files=f"{{{{ lockstep_archive('{spark_conn_id}', dag.fileloc, '{door.pipeline}') }}}}",
        conf={"spark.driver.extraJavaOptions": "{{ lockstep_driver_options() }}"},
        **task,
    )


def lead_to(door: Door) -> Callable[[Mapping[str, Any]], None]:
    """Returns a hook before spark-submit that requires a planned batch and sets the driver's environment.

    The driver finds its servers there, never in arguments.
    """

    def before(context: Mapping[str, Any]) -> None:
        from lockstep.steps.attempt.pick_up import require_planned

        with door.opened() as at:
            require_planned(at.conn, _batch_of(context))
        tell_driver(door)

    return before


def tell_driver(door: Door) -> None:
    """Sets the driver's environment, which spark-submit inherits from this process: its servers, and this task.

    A driver on a cluster inherits nothing: the file of its LOCKSTEP_ENVIRONMENT names the servers.
    """
    from lockstep.adapters.processes import this_owner

    os.environ.update(door.environment())
    os.environ[HOLDER] = this_owner()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def driver_answer(at: Context) -> RunOutcome:
    """Returns the answer of this try's driver. Raises `AirflowException`, for a retry, if it has ended without one."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.batch.answers import answer_to

    with transaction(at.conn, READER) as cur:
        found = answer_to(cur, task_caller().task_run)
    if found is None:
        raise AirflowException("the driver has ended without an answer: its own log, which a cluster keeps, says why")
    return found


def look_after(door: Door) -> Callable[[Mapping[str, Any], Any], None]:
    """Returns a hook after spark-submit. It raises unless this run's attempt is staged, and records its seconds."""

    def after(context: Mapping[str, Any], _result: Any) -> None:
        from lockstep.adapters.postgres import READER, transaction
        from lockstep.airflow import logs
        from lockstep.ledger.batch.attempts import seconds_staging
        from lockstep.steps.attempt.pick_up import pick_up

        with door.opened() as at:
            refusal = said_in(driver_answer(at).reason)
            if refusal and not isinstance(refusal, Superseded):
                raise AirflowException(str(refusal))
            found = pick_up(at.conn, _batch_of(context), task_caller().task_run)
            with transaction(at.conn, READER) as cur:
                seconds = seconds_staging(cur, found.attempt)
            logs.say_staged(at, found.attempt)
        push(attempt=found.attempt.token)
        measure_seconds(door.pipeline, "stage", seconds)

    return after


def _batch_of(context: Mapping[str, Any]) -> int:
    return named_batch(context["ti"].xcom_pull(task_ids="plan"))
