"""Gives a task its servers, by connection or environment, its pipeline, and Airflow's errors for refusals."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.observability import stats

from lockstep.airflow.connections import environment
from lockstep.core.decisions import Caller, TaskRun
from lockstep.core.errors import BadData, BadDefinition, DefinitionChanged, Refusal, Superseded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lockstep.core.folder import PipelineFolder
    from lockstep.core.stores import Store
    from lockstep.steps.surroundings import Surroundings


@dataclass(frozen=True, slots=True)
class Door:
    """The pipeline of a DAG, the connections to its servers, and the store with its own connection."""

    pipeline: str
    postgres_conn_id: str
    kafka_conn_id: str
    registry_conn_id: str | None = None
    store: Store | None = None

    def environment(self) -> dict[str, str]:
        """Returns the variables that lead a process to the servers.

        A variable that is already set overrides a connection.
        """
        return environment(
            self.postgres_conn_id, self.kafka_conn_id, registry_conn_id=self.registry_conn_id, store=self.store
        )

    def folder(self) -> PipelineFolder:
        """Loads the pipeline from disk now."""
        from lockstep.adapters.folders import load

        return load(self.pipeline)

    @contextmanager
    def opened(self, step: str | None = None) -> Iterator[Surroundings]:
        """Opens the servers for the block. Converts refusals to Airflow's errors, and measures the step's seconds."""
        from lockstep.cli.surroundings import surroundings

        began = time.perf_counter()
        with told(), led(self.environment()):
            at = surroundings()
            try:
                yield at
            finally:
                at.close()
        if step:
            measure_seconds(self.pipeline, step, time.perf_counter() - began)


@contextmanager
def told() -> Iterator[None]:
    """Converts refusals to Airflow's errors.

    A superseded attempt is skipped. A fault of data or code fails without a retry. Anything else fails with a retry.
    """
    try:
        yield
    except Superseded as answer:
        raise AirflowSkipException(str(answer)) from None
    except (BadData, BadDefinition, DefinitionChanged) as refusal:
        raise AirflowFailException(str(refusal)) from None
    except Refusal as refusal:
        raise AirflowException(str(refusal)) from None


def caller() -> Caller:
    """Returns this task's run for the ledger. The run id is the key, so that a cleared run finds its batch again."""
    context = get_current_context()
    ti, params = context["ti"], context.get("params") or {}
    task_run = TaskRun(ti.dag_id, ti.run_id, str(ti.id), ti.try_number)
    return Caller(
        task_run.owner or "",
        key=ti.run_id,
        take_over=bool(params.get("take_over")),
        retry=bool(params.get("retry")),
        task_run=task_run,
    )


def push(**values: Any) -> None:
    """Pushes facts to the task's own page, as XComs."""
    ti = get_current_context()["ti"]
    for key, value in values.items():
        ti.xcom_push(key=key, value=value)


def measure_seconds(pipeline: str, step: str, seconds: float) -> None:
    """Measures the duration of a step, without Airflow's overhead."""
    stats.timing("lockstep.step", seconds * 1000, tags={"pipeline": pipeline, "step": step})


@contextmanager
def led(environ: Mapping[str, str]) -> Iterator[None]:
    """Sets these variables for the block only, because `dag.test()` runs the tasks of many pipelines in one process."""
    before = {name: os.environ.get(name) for name in environ}
    os.environ.update(environ)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
