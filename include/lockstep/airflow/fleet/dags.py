"""Makes the DAGs of all pipelines from one DAG file. A broken definition hides no other pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, task

from lockstep.adapters.airflow.names import AirflowFailException
from lockstep.airflow.bundle import pipelines_beside
from lockstep.airflow.dag import SCHEDULE_BEGIN
from lockstep.airflow.history.dag import dags_for
from lockstep.airflow.upkeep.dag import upkeep_for
from lockstep.core.errors import BadDefinition
from lockstep.core.lake.iceberg import lake_places

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockstep.core.pipeline.definition import Pipeline

SHARED_SETTINGS = frozenset({"postgres_conn_id", "kafka_conn_id", "default_args"})  # of all DAGs of a pipeline
BROKEN_SCHEDULE = "@hourly"  # nobody knows its own
BROKEN_SUFFIX = "-broken"  # where another DAG has the name. No pipeline has a hyphen in its name


def dags_of_all(
    file: str,
    *,
    settings_of: Callable[[Pipeline], Mapping[str, Any]] | None = None,
    upkeep: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, DAG]:
    """Returns both DAGs of every pipeline, by their ids. A DAG file calls it with `__file__`, and updates its globals.

    `settings` are those of `dags_for`. `settings_of` returns more of them for one pipeline. A pipeline whose definition
    is broken, or does not fit its settings, gets one DAG of its name. Each of its runs fails with the line. With
    `upkeep`, settings of `upkeep_for`, a pipeline with a table in the lake gets a third one.
    """
    dags: dict[str, DAG] = {}
    broken: dict[str, BadDefinition] = {}
    for name, found in pipelines_beside(file).items():
        if isinstance(found, BadDefinition):
            broken[name] = found
            continue
        own = settings | dict(settings_of(found) if settings_of else {})
        try:
            made = [*dags_for(found, **own)]
            if upkeep is not None and lake_places(found.targets):
                made.append(upkeep_for(found, **({k: own[k] for k in SHARED_SETTINGS & own.keys()} | dict(upkeep))))
        except BadDefinition as refused:
            broken[name] = refused
            continue
        dags |= {dag.dag_id: dag for dag in made}
    for name, mistake in broken.items():  # a folder ORDERS_history takes nothing from ORDERS
        free = f"{name}{BROKEN_SUFFIX}" if name in dags else name
        dags[free] = _broken(free, str(mistake))
    return dags


def _broken(name: str, line: str) -> DAG:
    with DAG(
        name,
        schedule=BROKEN_SCHEDULE,
        start_date=SCHEDULE_BEGIN,
        catchup=False,
        max_active_runs=1,
        tags=["lockstep", "broken"],
        description="Its definition is broken: nothing is read",
        doc_md=f"`{line}`",
    ) as dag:

        @task
        def definition() -> None:
            """Fails with the mistake of the definition."""
            raise AirflowFailException(line)

        definition()
    return dag
