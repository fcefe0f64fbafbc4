"""What a task works with: its servers by connection or environment, its pipeline, and its answers in Airflow's words."""

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
    """Which pipeline a DAG runs, the connections that lead to its servers, and the store whose connection leads to results."""

    pipeline: str
    postgres_conn_id: str
    kafka_conn_id: str
    registry_conn_id: str | None = None
    store: Store | None = None

    def environment(self) -> dict[str, str]:
        """What leads a process to the servers; a variable that is set already wins over a connection."""
        return environment(
            self.postgres_conn_id, self.kafka_conn_id, registry_conn_id=self.registry_conn_id, store=self.store
        )

    def folder(self) -> PipelineFolder:
        """The pipeline as it lies on disk now."""
        from lockstep.adapters.folders import load

        return load(self.pipeline)

    @contextmanager
    def opened(self, step: str | None = None) -> Iterator[Surroundings]:
        """The servers; what is refused is said in Airflow's words, and how long a step took is a metric."""
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
    """Somebody else did it: skipped. Data or code is at fault: failed, and trying again is no use. Else: failed, retried."""
    try:
        yield
    except Superseded as answer:
        raise AirflowSkipException(str(answer)) from None
    except (BadData, BadDefinition, DefinitionChanged) as refusal:
        raise AirflowFailException(str(refusal)) from None
    except Refusal as refusal:
        raise AirflowException(str(refusal)) from None


def caller() -> Caller:
    """This task's run, as the ledger knows it: its run is the key, so that a cleared run finds its batch again."""
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
    """Facts for the task's own page."""
    ti = get_current_context()["ti"]
    for key, value in values.items():
        ti.xcom_push(key=key, value=value)


def measure_seconds(pipeline: str, step: str, seconds: float) -> None:
    """How long a step of ours took, apart from what Airflow adds."""
    stats.timing("lockstep.step", seconds * 1000, tags={"pipeline": pipeline, "step": step})


@contextmanager
def led(environ: Mapping[str, str]) -> Iterator[None]:
    """These variables for the block only: `dag.test()` runs the tasks of many pipelines in one process."""
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
