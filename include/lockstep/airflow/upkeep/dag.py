"""Builds a pipeline's third DAG, which keeps its tables in the lake quick to read."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, get_current_context, task

from lockstep.adapters.airflow.names import AirflowException, AirflowSkipException
from lockstep.airflow.dag import both
from lockstep.airflow.door import Door
from lockstep.core.changes.person import Person
from lockstep.core.errors import BadDefinition
from lockstep.core.lake.iceberg import lake_places
from lockstep.core.pipeline.names import UPKEEP_SUFFIX, topic_tags

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Pipeline

UPKEEP_DAG_ABOUT = """Keeps `{tables}` quick to read, as `lockstep upkeep {name} --lake` does: {steps}.

It runs beside batches, readers and other writers. Snapshots that readers were led to within `LOCKSTEP_LAKE_KEEP` stay.
**Skipped** means that there was nothing to do. **Failed** means that a step was left for the next run: the log says why.
"""
UPKEEP_STEPS = "small files and manifests are merged, old snapshots expire, and files that only they held are deleted"


def upkeep_for(
    pipeline: Pipeline,
    *,
    postgres_conn_id: str = "postgres_default",
    kafka_conn_id: str = "kafka_default",
    default_args: dict[str, Any] | None = None,
    **settings: Any,
) -> DAG:
    """Returns the DAG that keeps the lake tables of a pipeline, once a day. `settings` are those of Airflow's `DAG`.

    Refuses a pipeline without a table in the lake.
    """
    tables = [str(table) for table in lake_places(pipeline.targets).values()]
    if not tables:
        raise BadDefinition(f"{pipeline.name}: none of its tables is in the lake, and upkeep keeps no others")
    door = Door(pipeline.name, postgres_conn_id, kafka_conn_id, lake=True)
    ours: dict[str, Any] = both(pipeline, default_args) | {
        "max_active_runs": 1,
        "tags": ["lockstep", "upkeep", *topic_tags(pipeline.topic)],
        "description": f"Merges files of {' and '.join(tables)}, and lets old snapshots expire",
        "doc_md": UPKEEP_DAG_ABOUT.format(tables="` and `".join(tables), name=pipeline.name, steps=UPKEEP_STEPS),
    }
    named = f"{pipeline.name}{UPKEEP_SUFFIX}"
    with DAG(named, schedule=settings.pop("schedule", "@daily"), **(ours | settings)) as dag:

        @task
        def upkeep() -> None:
            """Merges small files and manifests, lets snapshots expire, and deletes what only they held."""
            keep_lake(door)

        upkeep()
    return dag


def keep_lake(door: Door) -> None:
    """Keeps each lake table. Skips the task if nothing was to be done, and fails it if a step was left."""
    from lockstep.airflow import logs
    from lockstep.context.systems import lake_keep
    from lockstep.core.lake.keeping import Upkeep
    from lockstep.steps.lake.keep_tables import cutoff_now, keep_tables

    run = get_current_context()["dag_run"]
    person = Person(f"{run.triggering_user_name or 'airflow'}@{run.dag_id}", "upkeep of the lake", run.run_id)
    with door.opened("upkeep") as at:
        wanted = Upkeep(person, cutoff_now(at.conn, lake_keep(), datetime.now(UTC)))
        found = keep_tables(at.conn, door.folder().pipeline, at.broker.view, wanted)
    lines = [line for kept in found for line in kept.lines()]
    logs.log_facts("upkeep", lines, {"pipeline": door.pipeline, "tables": [asdict(kept) for kept in found]})
    if left := [why for kept in found for why in kept.left]:
        raise AirflowException(f"{door.pipeline}: left for the next time: {'; '.join(left)}")
    if not any(kept.is_changed for kept in found):
        raise AirflowSkipException(f"{door.pipeline}: no table in the lake needs upkeep")
