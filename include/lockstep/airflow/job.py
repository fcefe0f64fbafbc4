"""A task that runs one of our jobs on Spark: by a driver of its own, or on a Spark that is warm, as its connection says."""

from __future__ import annotations

import os
import re
import runpy
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from airflow.sdk import Context


SECRETS = re.compile(
    "AIRFLOW_(CONN|VAR)_.*|AIRFLOW__(API_AUTH__JWT_|API__SECRET_KEY|CORE__FERNET_KEY|DATABASE__SQL_ALCHEMY_CONN|SECRETS__BACKEND"
    "|CORE__SQL_ALCHEMY_CONN|CELERY__(BROKER_URL|RESULT_BACKEND)|EXECUTION_API__JWT_).*"
)


class SparkJobOperator(SparkSubmitOperator):
    """Submits the job; where the connection is one of Spark Connect it runs in the task's own process and starts no JVM."""

    _runs_here = False

    def execute(self, context: Context) -> None:
        """The job's own words go to the task's log; one that fails is tried again."""
        if not is_warm(Connection.get(self._conn_id)):
            self._hook = self._get_hook()  # it reads its connection, which the driver is not given
            with withheld(os.environ):
                super().execute(context)
            return
        self._runs_here = True
        os.environ["SPARK_REMOTE"] = SparkConnectHook(self._conn_id).get_connection_url()
        job = runpy.run_path(self.application, run_name="job")
        if job["main"](*(self.application_args or ())) != 0:
            raise AirflowException(f"{self.task_id}: the line above says why")

    def on_kill(self) -> None:
        """What was begun on Spark ends with the task."""
        if not self._runs_here:
            super().on_kill()
            return
        from lockstep.adapters.spark_jobs import jobs

        if jobs.cache_info().currsize:  # else nothing was begun
            jobs().cancel_all()


@contextmanager
def withheld(environ: MutableMapping[str, str]) -> Iterator[None]:
    """Takes Airflow's secrets out of the environment for the block: a driver and its transform inherit none of them."""
    kept = {name: environ.pop(name) for name in list(environ) if SECRETS.fullmatch(name)}
    try:
        yield
    finally:
        environ.update(kept)


def is_warm(connection: Connection) -> bool:
    """Whether the connection leads to a Spark Connect server instead of a master."""
    return bool(connection.conn_type == SparkConnectHook.conn_type)
