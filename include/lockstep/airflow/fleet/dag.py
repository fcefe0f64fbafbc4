"""Builds one live DAG for many pipelines: one look says who has work, and mapped tasks do it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, AssetAlias, get_current_context, task

from lockstep.airflow.dag import SCHEDULE_BEGIN
from lockstep.airflow.fleet.work import Fleet, find_work, left_to_tasks, work_alone, work_in_turn
from lockstep.core.errors import BadDefinition

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.pipeline.definition import Pipeline

FLEET_DAG_ABOUT = """Each run looks at all pipelines at once, and moves one batch of each that has work.

`look` asks Kafka and Postgres once. `work` takes pipelines in turn, from plan to announcement. A pipeline that fails
there gets a task of its own, `alone`, with its own tries, and stops no other. `left` names these.

**Skipped** means that there was nothing to do. **alone failed without a retry** means that a person must decide.
"""


def fleet_dag(  # noqa: PLR0913 - each is a setting that a DAG file may give
    file: str,
    dag_id: str = "fleet",
    *,
    only: Callable[[Pipeline], bool] | None = None,
    in_turn: int = 10,
    at_once: int = 4,
    postgres_conn_id: str = "postgres_default",
    kafka_conn_id: str = "kafka_default",
    spark_conn_id: str = "spark_default",
    registry_conn_id: str = "lockstep_registry",
    default_args: dict[str, Any] | None = None,
    **settings: Any,
) -> DAG:
    """Returns one live DAG for all pipelines, or for those of `only`. A DAG file calls it with `__file__`.

    A task takes `in_turn` pipelines one after another, and `at_once` of these tasks run together. `settings` for
    Airflow's `DAG` override the defaults here. The parse loads no pipeline.
    """
    for name, value in (("in_turn", in_turn), ("at_once", at_once)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadDefinition(f"{dag_id}: {name} is {value!r}: it must be a whole number from 1 on")
    tables = AssetAlias(name=f"lockstep.{dag_id}", group="lockstep")
    fleet = Fleet(file, postgres_conn_id, kafka_conn_id, registry_conn_id, spark_conn_id, tables, only)
    known = {"owner": "lockstep", "retries": 2, "retry_delay": timedelta(seconds=30)}
    ours: dict[str, Any] = {
        "start_date": SCHEDULE_BEGIN,
        "catchup": False,
        "default_args": known | (default_args or {}),
        "max_active_runs": 1,
        "tags": ["lockstep", "fleet"],
        "description": "One batch of each pipeline that has work",
        "doc_md": FLEET_DAG_ABOUT,
    }
    with DAG(dag_id, schedule=settings.pop("schedule", "* * * * *"), **(ours | settings)) as dag:

        @task
        def look() -> list[list[str]]:
            """Names the pipelines that have work, or that cannot go on."""
            return find_work(fleet, in_turn)

        @task(outlets=[tables], max_active_tis_per_dag=at_once, map_index_template="{{ pipelines }}")
        def work(names: list[str]) -> list[str]:
            """Moves one batch of each. Returns those that fail, for tasks of their own."""
            _title(names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more")
            return work_in_turn(fleet, names)

        @task(trigger_rule="none_failed_min_one_success")
        def left(found: list[list[str]]) -> list[str]:
            """Returns the pipelines that need a task of their own."""
            return left_to_tasks(found)

        @task(outlets=[tables], max_active_tis_per_dag=at_once, map_index_template="{{ pipelines }}")
        def alone(name: str) -> int:
            """Moves one batch of one pipeline, from plan to announcement."""
            _title(name)
            return work_alone(fleet, name)

        alone.expand(name=left(work.expand(names=look())))  # type: ignore[arg-type]  # TaskFlow hands the value over
    return dag


def _title(words: str) -> None:
    """Names the task in its row of the grid."""
    get_current_context()["pipelines"] = words  # type: ignore[typeddict-unknown-key]
