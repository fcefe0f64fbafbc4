"""Runs one of our jobs on Spark in a task, by its own driver or on a Spark Connect server."""

from __future__ import annotations

import os
import runpy
import sys
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Connection

from lockstep.adapters.airflow.names import AirflowException, AirflowFailException
from lockstep.adapters.withheld import withheld
from lockstep.core.settings import REMOTE

if TYPE_CHECKING:
    from airflow.sdk import Context

MASTER = "SPARK_MASTER"


class SparkJobOperator(SparkSubmitOperator):
    """A task that submits the job.

    For a Spark Connect connection, it runs the job in its own process, without a JVM.
    """

    _runs_here = False

    def execute(self, context: Context) -> None:
        """Runs the job with its messages in the task's log. Raises `AirflowException` if it fails, for a retry."""
        if not is_warm(Connection.get(self._conn_id)):
            self._hook = self._get_hook()  # it reads its connection, which the driver is not given
            with withheld():
                super().execute(context)
            return
        self._runs_here = True
        lead_to_server(self._conn_id)
        job = runpy.run_path(self.application, run_name="job")
        if job["main"](*(self.application_args or ())) != 0:
            raise AirflowException(f"{self.task_id}: the line above says why")

    def on_kill(self) -> None:
        """Ends the task's jobs on Spark."""
        if not self._runs_here:
            super().on_kill()
            return
        cancel_jobs()


def cancel_jobs() -> None:
    """Stops the jobs that this process has begun on Spark. Imports nothing of Spark if there is none."""
    engine = sys.modules.get("lockstep.engine.spark.jobs")
    if engine and engine.jobs.cache_info().currsize:  # else nothing was begun
        engine.jobs().cancel_all()


def is_warm(connection: Connection) -> bool:
    """Returns True if the connection leads to a Spark Connect server instead of a master."""
    return bool(connection.conn_type == SparkConnectHook.conn_type)


def lead_to_server(spark_conn_id: str) -> None:
    """Leads this process to the connection's Spark Connect server."""
    os.environ[REMOTE] = SparkConnectHook(spark_conn_id).get_connection_url()


def choose_spark(spark_conn_id: str) -> None:
    """Leads this process to the connection's Spark Connect server, or to a local master of its own.

    Raises `AirflowFailException` for another master: spark-submit alone brings a driver to it.
    """
    connection = Connection.get(spark_conn_id)
    if is_warm(connection):
        lead_to_server(spark_conn_id)
        return
    master = connection.host or ""
    if not master.startswith("local"):
        raise AirflowFailException(
            f'{spark_conn_id} leads to the master {master or "that it does not name"}, and tasks="one" reads in the '
            'task\'s own process  Next: give spark_conn_id a connection to a Spark Connect server, or take tasks="each"'
        )
    os.environ[MASTER] = master
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
