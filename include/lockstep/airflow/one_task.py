"""Runs all steps of one batch in one task. No step waits for the scheduler to start the next."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from lockstep.airflow import steps
from lockstep.airflow.door import OWN_PAGE, measure_seconds, task_caller
from lockstep.airflow.job import cancel_jobs, choose_spark
from lockstep.core.planning.decisions import Done
from lockstep.core.states import AttemptState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow.sdk import Asset, Context

    from lockstep.airflow.door import Door, TaskPage

log = logging.getLogger(__name__)
RUN = "run"  # the task's id


class BatchOperator(BaseOperator):
    """A task that plans, stages, validates, commits and announces one batch. Spark is used if the batch needs it."""

    def __init__(self, *, door: Door, spark_conn_id: str, assets: Sequence[Asset], **settings: Any) -> None:
        super().__init__(outlets=list(assets), **settings)
        self.door = door
        self.spark_conn_id = spark_conn_id
        self.assets = list(assets)

    def execute(self, context: Context) -> int:
        """Returns the batch. Each step has its own part of the log."""
        return run_batch(self.door, self.spark_conn_id, self.assets, is_retry=context["ti"].try_number > 1)

    def on_kill(self) -> None:
        """Ends the task's jobs on Spark."""
        cancel_jobs()


def run_batch(
    door: Door, spark_conn_id: str, assets: Sequence[Asset], *, is_retry: bool, page: TaskPage = OWN_PAGE
) -> int:
    """Takes one batch from its plan to its announcement. Skips the task if there is nothing to do.

    A retry that finds its batch committed announces it: the earlier try may have died between the two.
    """
    choose_spark(spark_conn_id)
    caller, seconds = replace(task_caller(), in_one_process=True), dict[str, float]()
    with door.opened() as at:
        from lockstep.airflow import logs
        from lockstep.context.systems import engine_for
        from lockstep.steps.attempt.judge import begin_judge
        from lockstep.steps.attempt.pick_up import PickedUp, pick_up
        from lockstep.steps.batch.stage import stage

        folder = door.folder()
        with _step(door, "plan", seconds):
            planned = steps.decide_batch(at, folder, caller)
            done = planned.decision.batch_id if isinstance(planned.decision, Done) and is_retry else None
            batch_id = steps.say_planned(at, planned, page) if done is None else done
            page.push(batch=batch_id)
        if done is None:
            begin_judge(folder)
            with _step(door, "stage", seconds):
                attempt = stage(at, engine_for(folder, at), folder, batch_id, caller)
                logs.say_staged(at, attempt)
                page.push(attempt=attempt.token)
            with _step(door, "validate", seconds):
                steps.judge_attempt(at, folder, PickedUp(attempt, AttemptState.STAGED), hands_over=False)
            with _step(door, "commit", seconds):
                steps.commit_attempt(at, folder, attempt, page)
        else:
            log.info("batch %s of this run is committed already, and is announced", done)
            attempt = pick_up(at.conn, batch_id, caller.task_run).attempt
        with _step(door, "announce", seconds):
            steps.announce_attempt(at, folder.pipeline, assets, attempt, page)
    page.push(seconds={step: round(spent, 3) for step, spent in seconds.items()})
    return batch_id


@contextmanager
def _step(door: Door, name: str, seconds: dict[str, float]) -> Iterator[None]:
    """Gives a step a part of the log that can be folded, and measures it."""
    log.info("::group::%s", name)
    began = time.perf_counter()
    try:
        yield
    finally:
        log.info("::endgroup::")
    seconds[name] = time.perf_counter() - began
    measure_seconds(door.pipeline, name, seconds[name])
