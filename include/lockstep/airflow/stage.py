"""The task that reads: by a driver of its own, or on a Spark that is warm already, as its connection says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from lockstep.airflow import submit
from lockstep.airflow.door import caller

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lockstep.airflow.door import Door
    from lockstep.core.staging import Engine


class StageOperator(SparkSubmitOperator):
    """Submits the stage step to Spark, or takes it itself where the connection is one of Spark Connect.

    Either way the ledger says afterwards whether this run's attempt is staged.
    """

    def __init__(self, *, door: Door, **settings: Any) -> None:
        super().__init__(pre_execute=submit.lead_to(door), post_execute=submit.look_after(door), **settings)
        self._door = door
        self._engine: Engine | None = None

    def execute(self, context: Context) -> None:
        """Stages the batch that `plan` has written down."""
        if not submit.is_warm(self._conn_id):
            super().execute(context)
            return
        os.environ["SPARK_REMOTE"] = SparkConnectHook(self._conn_id).get_connection_url()
        from lockstep.adapters.spark import SparkEngine
        from lockstep.cli.surroundings import registry
        from lockstep.steps.stage import stage

        with self._door.opened() as at:
            folder = self._door.folder()
            self._engine = SparkEngine(folder, at.broker.bootstrap, at.dsn, at.broker.options, registry())
            stage(at, self._engine, folder, submit.batch_of(context), caller())

    def on_kill(self) -> None:
        """What was begun ends with the task."""
        if self._engine is None:
            super().on_kill()
        else:
            self._engine.cancel()
