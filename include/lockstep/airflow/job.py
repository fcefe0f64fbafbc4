"""Runs one of our jobs on Spark in a task, by its own driver or on a Spark Connect server."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Connection

from lockstep.adapters.airflow.names import AirflowException, AirflowFailException
from lockstep.adapters.java import pyspark_jars
from lockstep.adapters.withheld import for_driver, of_submitters
from lockstep.airflow.door import task_caller
from lockstep.context.submitted import submitted_for
from lockstep.core.settings import REMOTE

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Context

MASTER = "SPARK_MASTER"
CLUSTER_MODE, PYTHON_RUNNER = "cluster", "org.apache.spark.deploy.PythonRunner"
STANDALONE_CLIENT, YARN_CLIENT = "org.apache.spark.deploy.Client", "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
MASTER_SECONDS = 60


class SparkJobOperator(SparkSubmitOperator):
    """A task that submits the job.

    For a Spark Connect connection, it runs the job in its own process, without a JVM. With the deploy mode `cluster` the
    driver runs on the cluster, and answers in the ledger.
    """

    _runs_here = _runs_there = False

    def execute(self, context: Context) -> None:
        """Runs the job with its messages in the task's log. Raises `AirflowException` if it fails, for a retry."""
        self.application_args = [*(self.application_args or ()), *submitted_for(task_caller())]
        if not is_warm(Connection.get(self._conn_id)):
            self._hook = self._get_hook()  # it reads its connection, which the driver is not given
            if self._hook._connection["deploy_mode"] == CLUSTER_MODE:  # noqa: SLF001 - as the hook has resolved it
                self._submit_to_cluster()
                return
            with for_driver():
                super().execute(context)
            return
        self._runs_here = True
        lead_to_server(self._conn_id)
        job = runpy.run_path(self.application, run_name="job")
        if job["main"](*(self.application_args or ())) != 0:
            raise AirflowException(f"{self.task_id}: the line above says why")

    def _submit_to_cluster(self) -> None:
        """Waits for the driver's end. The submitting program has no secret, and the cluster is given none.

        Once the cluster has begun the application, the ledger's answer says what came of it. The exit code does not.
        """
        self._runs_there = True
        resolved = self._hook or self._get_hook()
        self._suit(resolved._connection["master"])  # noqa: SLF001 - as the hook has resolved it
        self._hook = hook = self._get_hook()
        try:
            hook.submit(self.application, env=of_submitters())
        except AirflowException as error:
            if not (hook._yarn_application_id or hook._kubernetes_application_id):  # noqa: SLF001 - as its log says it
                raise
            self.log.warning("the cluster's driver did not end well: %s", error)

    def _suit(self, master: str) -> None:
        """Changes what is submitted to what this kind of cluster takes. Drivers there have our code installed."""
        self.py_files = None
        if master.startswith("spark://"):
            # A standalone master starts Java's drivers alone, each from a jar that its worker has. PythonRunner is one
            # that starts Python's, and any jar does.
            self.application_args = [self.application, "", *(self.application_args or ())]
            self.application, self._java_class = str(next(pyspark_jars().glob("spark-tags_*.jar"))), PYTHON_RUNNER
            more = {"spark.standalone.submit.waitAppCompletion": "true"}
        elif master.startswith("k8s://"):
            self.application = f"local://{self.application}"
            more = {"spark.kubernetes.submission.waitAppCompletion": "true"}
        else:
            # Airflow's next try has its own attempt. A driver that YARN starts again would work for a try that is over.
            more = {"spark.yarn.maxAppAttempts": "1", "spark.yarn.submit.waitAppCompletion": "true"}
        self.conf = (self.conf or {}) | more

    def on_kill(self) -> None:
        """Ends the task's jobs on Spark. On a cluster, closes the attempt first: its driver then ends itself, too."""
        if self._runs_here:
            cancel_jobs()
            return
        if not self._runs_there or self._hook is None:
            super().on_kill()
            return
        close_attempts()
        hook, application = self._hook, self._hook._yarn_application_id  # noqa: SLF001 - as its log says it
        # It would ask the master by REST, and YARN by a program of Hadoop that gets all of this environment.
        hook._should_track_driver_status, hook._yarn_application_id = False, None  # noqa: SLF001
        hook.on_kill()
        if driver := hook._driver_id:  # noqa: SLF001 - as its log says it
            run_class(hook, STANDALONE_CLIENT, "kill", hook._connection["master"], driver)  # noqa: SLF001 - as above
        elif application:
            run_class(hook, YARN_CLIENT, "application", "-kill", application)


def run_class(hook: SparkSubmitHook, *command: str) -> None:
    """Runs a class of Spark's jars as `spark-submit` does, with nothing secret in its environment."""
    program = str(Path(hook._connection["spark_binary"]).with_name("spark-class"))  # noqa: SLF001 - as it has resolved it
    subprocess.run([program, *command], env=of_submitters(), check=False, timeout=MASTER_SECONDS)


def close_attempts() -> None:
    """Closes what this task has open in the ledger. Does not raise if the ledger is away: its lease then runs out."""
    from lockstep.adapters.postgres_errors import best_effort
    from lockstep.context.systems import database
    from lockstep.steps.attempt.failure import close_attempts_of_task

    instance = task_caller().task_run.task_instance_id
    with best_effort(), database() as conn:
        close_attempts_of_task(conn, instance or "", "its task in Airflow was ended")


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
