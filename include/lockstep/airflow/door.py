"""Gives a task its servers, by connection or environment, its pipeline, and Airflow's errors for refusals."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from lockstep.adapters.airflow.connections import connection_environment
from lockstep.adapters.airflow.names import (
    HAS_RETRY_POLICIES,
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    stats,
)
from lockstep.adapters.folders import PIPELINES_VARIABLE
from lockstep.airflow.bundle import root_beside
from lockstep.context.environment import environment_set
from lockstep.core.errors import BadData, BadDefinition, DefinitionChanged, Refusal, Superseded
from lockstep.core.planning.decisions import Caller, TaskRun
from lockstep.core.settings import airflow_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.sdk import Asset

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.pipeline.stores import Store
    from lockstep.steps.context import Context

log = logging.getLogger(__name__)
NOT_HANDED_ON = "it was marked by hand, or its XCom was deleted"  # why a task before has handed nothing on


@dataclass(frozen=True, slots=True)
class Door:
    """The pipeline of a DAG, the connections to its servers, and the store with its own connection.

    `lake` says that it has a table in the lake.
    """

    pipeline: str
    postgres_conn_id: str
    kafka_conn_id: str
    registry_conn_id: str | None = None
    store: Store | None = None
    lake: bool = False

    def environment(self) -> dict[str, str]:
        """Returns the variables that lead a process to the servers, and to the pipelines of the run's DAG bundle.

        A variable that is already set overrides a connection, and the folder.
        """
        root = root_beside(get_current_context()["dag"].fileloc, self.pipeline)
        return connection_environment(
            self.postgres_conn_id,
            self.kafka_conn_id,
            registry_conn_id=self.registry_conn_id,
            store=self.store,
            lake=self.lake,
        ) | ({PIPELINES_VARIABLE: str(root)} if root else {})

    def folder(self) -> PipelineFolder:
        """Loads the pipeline from disk now, within the block of `opened`."""
        from lockstep.adapters.folders import load

        return load(self.pipeline)

    @contextmanager
    def opened(self, step: str | None = None) -> Iterator[Context]:
        """Opens the servers for the block. Converts refusals to Airflow's errors, and measures the step's seconds."""
        from lockstep.context.systems import open_context

        began = time.perf_counter()
        with as_airflow_errors(), environment_set(self.environment()):
            at = open_context()
            try:
                yield at
            finally:
                at.close()
        if step:
            measure_seconds(self.pipeline, step, time.perf_counter() - began)


@contextmanager
def as_airflow_errors() -> Iterator[None]:
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


class RunRefused(SystemExit):
    """The refusal of a run that contradicts itself. Airflow logs no frames for the end of a process."""

    def __init__(self, message: str) -> None:
        super().__init__(1)
        self.message = message

    def __str__(self) -> str:
        """Returns the refusal, for a callback."""
        return self.message


@contextmanager
def refused_at_once() -> Iterator[None]:
    """Converts a refusal to one line of the log, and ends the task."""
    try:
        yield
    except BadDefinition as refusal:
        log.error("%s", refusal)  # noqa: TRY400 - the line says all, and frames of ours would hide it
        if HAS_RETRY_POLICIES:
            raise RunRefused(str(refusal)) from None
        raise AirflowFailException(str(refusal)) from None  # with frames in the log, but without another try


def task_caller() -> Caller:
    """Returns this task's run for the ledger. The run id is the key, so that a cleared run finds its batch again."""
    context = get_current_context()
    ti, params = context["ti"], context.get("params") or {}
    index = ti.map_index if ti.map_index is not None and ti.map_index >= 0 else None
    name = airflow_name()
    task_run = TaskRun(ti.dag_id, ti.run_id, str(ti.id), ti.try_number, ti.task_id, index, name)
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


class TaskPage:
    """The page of a task that works on one pipeline: its XComs, and the events of its tables."""

    def push(self, **values: Any) -> None:
        """Shows facts of the batch."""
        push(**values)

    def emit(self, asset: Asset, extra: dict[str, Any]) -> None:
        """Emits the event of a table, which the task names as an outlet."""
        get_current_context()["outlet_events"][asset].extra = extra


OWN_PAGE = TaskPage()


def emit_news(context: Any, news: Mapping[Asset, dict[str, Any]]) -> None:
    """Emits an event for these outlets of a task, and none for its others.

    Airflow adds an event without any facts for each outlet of a task that succeeds and does not say more.
    """
    for asset, extra in news.items():
        context["outlet_events"][asset].extra = extra
    task = context["ti"].task
    task.outlets = [outlet for outlet in task.outlets if outlet in news]


def measure_seconds(pipeline: str, step: str, seconds: float) -> None:
    """Measures the duration of a step, without Airflow's overhead."""
    stats.timing("lockstep.step", seconds * 1000, tags={"pipeline": pipeline, "step": step})
