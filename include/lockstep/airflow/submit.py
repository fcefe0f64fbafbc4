"""The stage task around Airflow's own SparkSubmitOperator: what leads the driver to its work, and what it came to."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection

from lockstep.airflow.door import caller, measure_seconds, push, told
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockstep.airflow.door import Door

JOB = Path("spark_jobs", "stage_batch.py")


def job() -> str:
    """The file that spark-submit runs: beside the sources, else where the wheel has put it."""
    places = [Path(__file__).parents[3] / JOB, Path(sys.prefix) / "share" / "lockstep" / JOB]
    for place in places:
        if place.is_file():
            return str(place)
    raise Refusal(f"{JOB} is neither at {places[0]} nor at {places[1]}", next_command="pip install lockstep")


def jars() -> str:
    """Spark's Kafka connector, as `--jars` takes it."""
    from lockstep.adapters.connector import connector_jars

    with told():
        return ",".join(connector_jars())


def archive(spark_conn_id: str) -> str:
    """The engine as a zip, for executors on other machines, which have not installed it."""
    from lockstep.adapters import shipping

    local = (Connection.get(spark_conn_id).host or "").startswith("local")
    return "" if local or is_warm(spark_conn_id) else shipping.archive()


def is_warm(spark_conn_id: str) -> bool:
    """Whether the connection leads to a Spark Connect server instead of a master."""
    return bool(Connection.get(spark_conn_id).conn_type == "spark_connect")


def driver_options() -> str:
    """What the driver's JVM is told."""
    from lockstep.adapters import jvm

    return jvm.driver_options()


MACROS = {
    "lockstep_job": job,
    "lockstep_jars": jars,
    "lockstep_archive": archive,
    "lockstep_driver_options": driver_options,
}


def lead_to(door: Door) -> Callable[[Mapping[str, Any]], None]:
    """Before spark-submit: the batch must still wait; the driver finds its servers in its environment, never in arguments."""

    def before(context: Mapping[str, Any]) -> None:
        from lockstep.adapters.processes import this_owner
        from lockstep.steps.pick_up import require_planned

        with door.opened() as at:
            require_planned(at.conn, batch_of(context))
        os.environ.update(door.environment())
        os.environ["LOCKSTEP_HOLDER"] = this_owner()
        os.environ["LOCKSTEP_TASK_INSTANCE"] = str(context["ti"].id)
        os.environ["LOCKSTEP_TAKE_OVER"] = str(int(caller().take_over))
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    return before


def look_after(door: Door) -> Callable[[Mapping[str, Any], Any], None]:
    """After spark-submit: the ledger says whether this run's attempt is staged; if not, somebody else has the batch."""

    def after(context: Mapping[str, Any], _result: Any) -> None:
        from lockstep.adapters.postgres import READER, transaction
        from lockstep.ledger.attempts import seconds_staging
        from lockstep.steps.pick_up import pick_up

        with door.opened() as at:
            found = pick_up(at.conn, batch_of(context), caller().task_run)
            with transaction(at.conn, READER) as cur:
                seconds = seconds_staging(cur, found.attempt)
        push(attempt=found.attempt.token)
        measure_seconds(door.pipeline, "stage", seconds)

    return after


def batch_of(context: Mapping[str, Any]) -> int:
    """The batch that this run has planned."""
    return int(context["ti"].xcom_pull(task_ids="plan"))
