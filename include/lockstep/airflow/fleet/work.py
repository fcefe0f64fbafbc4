"""Looks at a fleet, and does its work. Each pipeline is worked on by itself, as by the DAG of one task."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import AssetAlias, get_current_context

from lockstep.adapters.airflow.connections import connection_environment
from lockstep.adapters.airflow.names import AirflowSkipException, conf
from lockstep.adapters.folders import PIPELINES_VARIABLE, load, load_each, pipeline_names
from lockstep.airflow.bundle import place_beside
from lockstep.airflow.dag import assets_of, door_of
from lockstep.airflow.door import TaskPage, as_airflow_errors, push
from lockstep.airflow.job import cancel_jobs
from lockstep.airflow.one_task import run_batch
from lockstep.context.environment import environment_set
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.planning.decisions import Busy, Caller, Done, Idle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow.sdk import Asset

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.steps.fleet.look import Looked

log = logging.getLogger(__name__)
LOOKER = Caller("fleet")  # a look holds nothing
MOST_MAPPED = 1024  # Airflow's own default


@dataclass(frozen=True, slots=True)
class Fleet:
    """The pipelines of one DAG: the DAG file, their connections, and the alias of their tables."""

    file: str
    postgres_conn_id: str
    kafka_conn_id: str
    registry_conn_id: str
    spark_conn_id: str
    tables: AssetAlias
    only: Callable[[Pipeline], bool] | None = None

    def place(self) -> dict[str, str]:
        """Returns the variable that leads to the pipelines."""
        return {PIPELINES_VARIABLE: str(place_beside(self.file))}


@dataclass(slots=True)
class PageOfMany(TaskPage):
    """The page of a task that works on several pipelines. Their facts are shown together, once."""

    tables: AssetAlias
    facts: dict[str, Any] = field(default_factory=dict)

    def push(self, **values: Any) -> None:
        """Keeps facts of the batch."""
        self.facts |= values

    def emit(self, asset: Asset, extra: dict[str, Any]) -> None:
        """Emits the event of a table by the alias. A fleet's tables are not known before the run."""
        get_current_context()["outlet_events"][self.tables].add(asset, extra=extra)


def find_work(fleet: Fleet, in_turn: int) -> list[list[str]]:
    """Returns the pipelines that have work, or cannot go on, in portions. Records nothing."""
    from lockstep.airflow import logs
    from lockstep.context.systems import open_context
    from lockstep.steps.fleet.look import look_at_all

    with as_airflow_errors(), environment_set(fleet.place()):
        loaded = {
            name: folder
            for name, folder in load_each(pipeline_names()).items()
            if isinstance(folder, Refusal) or fleet.only is None or fleet.only(folder.pipeline)
        }
        with environment_set(_servers(fleet, loaded.values())):
            at = open_context()
            try:
                looked = look_at_all(at, loaded, LOOKER, datetime.now(UTC))
            finally:
                at.close()
    busy = [each.pipeline for each in looked if _has_work(each)]
    lines = [f"{len(busy):,} of {len(looked):,} pipelines have work, or cannot go on", *busy]
    logs.log_facts("look", lines, {"pipelines": len(looked), "work": busy})
    portion = max(in_turn, -(-len(busy) // most_mapped()))
    return [busy[first : first + portion] for first in range(0, len(busy), portion)]


def most_mapped() -> int:
    """Returns how many tasks Airflow makes of one list. It fails a task that returns a longer one."""
    return int(conf.getint("core", "max_map_length", fallback=MOST_MAPPED))


def left_to_tasks(found: Iterable[Iterable[str]]) -> list[str]:
    """Returns the pipelines that need a task of their own. Those that Airflow has no task for wait for the next run."""
    names, most = [name for names in found for name in names], most_mapped()
    if names[most:]:
        log.warning("%s wait for the next run: [core] max_map_length is %s", ", ".join(names[most:]), most)
    return names[:most]


def _has_work(looked: Looked) -> bool:
    """Returns True if a run of the pipeline would do something, or fail and say why."""
    return looked.planned is None or not isinstance(looked.planned.decision, Idle | Busy | Done)


def _servers(fleet: Fleet, folders: Iterable[PipelineFolder | Refusal]) -> dict[str, str]:
    """Returns the variables that lead to Kafka, to the ledger, and to each store that has a connection."""
    found = connection_environment(fleet.postgres_conn_id, fleet.kafka_conn_id)
    for store in {folder.pipeline.store for folder in folders if not isinstance(folder, Refusal)} - {None}:
        try:
            found |= connection_environment(fleet.postgres_conn_id, fleet.kafka_conn_id, store=store)
        except BadDefinition as refusal:  # the look says it of each pipeline of this store
            log.warning("%s", refusal)
    return found


def work_in_turn(fleet: Fleet, names: list[str]) -> list[str]:
    """Moves one batch of each pipeline. Returns those that fail, which then get a task of their own.

    A second try only returns all names. So a pipeline that has ended the first one stops no other.
    """
    if get_current_context()["ti"].try_number > 1:
        return names
    done: dict[str, dict[str, Any]] = {}
    left: list[str] = []
    for name in names:
        page = PageOfMany(fleet.tables)
        log.info("::group::%s", name)
        try:
            _run(fleet, name, page, is_retry=False)
        except AirflowSkipException as skipped:
            log.info("%s: %s", name, skipped)
        except Exception as error:  # noqa: BLE001 - a task of its own tries again, and says what it is
            log.warning("%s is left to a task of its own: %s", name, error)
            left.append(name)
        else:
            done[name] = page.facts
        log.info("::endgroup::")
    push(done=done)
    return left


def work_alone(fleet: Fleet, name: str) -> int:
    """Moves one batch of one pipeline, and returns it. A batch that the run has committed already is announced."""
    page = PageOfMany(fleet.tables)
    batch_id = _run(fleet, name, page, is_retry=True)
    push(**page.facts)
    return batch_id


def _run(fleet: Fleet, name: str, page: TaskPage, *, is_retry: bool) -> int:
    """Moves one batch of a pipeline, as the DAG of one task does."""
    setattr(get_current_context()["ti"].task, "on_kill", cancel_jobs)  # noqa: B010 - its jobs on Spark end with it
    with as_airflow_errors(), environment_set(fleet.place()):
        pipeline = load(name).pipeline
        door = door_of(pipeline, fleet.postgres_conn_id, fleet.kafka_conn_id, fleet.registry_conn_id)
        return run_batch(door, fleet.spark_conn_id, assets_of(pipeline), is_retry=is_retry, page=page)
