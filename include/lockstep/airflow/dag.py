"""Builds a pipeline's DAG: each run plans, stages, validates, commits and announces one batch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, task
from airflow.sdk.definitions.param import ParamsDict

from lockstep.airflow import steps, submit
from lockstep.airflow.archiving import archive_beside
from lockstep.airflow.door import Door
from lockstep.airflow.history.form import retry, take_over_field
from lockstep.airflow.hours import hours_of, tell_hours
from lockstep.airflow.link import BatchLink, OneTaskLink
from lockstep.airflow.one_task import RUN, BatchOperator
from lockstep.airflow.relay import send_behind
from lockstep.airflow.wake.schedule import with_wake_ups
from lockstep.airflow.watermark import show_behind
from lockstep.core.errors import BadDefinition
from lockstep.core.lake.iceberg import lake_places
from lockstep.core.pipeline.formats import registered_of
from lockstep.core.pipeline.guarantees import AtLeastOnce, AtMostOnce, Idempotent
from lockstep.core.pipeline.names import topic_tags, topic_words, topics_named
from lockstep.core.pipeline.targets import topics_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Param

    from lockstep.core.pipeline.definition import Pipeline

LIVE_DAG_ABOUT = """Each run moves one batch from Kafka topic `{topic}` to `{table}`: {how}.

Behind it, `hours` says which hours are complete: every record of them is in the table.

**Skipped** means that there was nothing to do, that another run does it, or that this run's batch is already committed.
**Failed without a retry** means that a person must decide; the task's log ends with the command to type.
"""
SCHEDULE_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)  # a schedule needs a beginning. Missed runs are not made up for.
EACH, ONE = "each", "one"  # the tasks of a run: one for each step, or one for all
PARAMS = {"retry": retry(), "take_over": take_over_field()}


def asset_of(pipeline: Pipeline) -> Asset:
    """Returns the asset of a pipeline's first table, for DAGs that run after each of its batches."""
    return assets_of(pipeline)[0]


def assets_of(pipeline: Pipeline) -> list[Asset]:
    """Returns the assets of all tables of a pipeline, in the definition's order."""
    return [Asset(name=target.table, uri=f"lockstep://{target.table}", group="lockstep") for target in pipeline.targets]


def _how(pipeline: Pipeline) -> str:
    match pipeline.guarantee:
        case Idempotent():
            return "results by natural key, then offsets"
        case AtLeastOnce():
            return "results, then offsets, so that a crash between them doubles rows"
        case AtMostOnce():
            return "offsets, then results, so that a crash between them loses rows"
        case _:
            return "results and offsets commit in one transaction"


def door_of(pipeline: Pipeline, postgres_conn_id: str, kafka_conn_id: str, registry_conn_id: str) -> Door:
    """Returns the connections of a pipeline. It has the registry's if the records that it reads or sends need one."""
    sends_avro = any(topic.value for _, topic in topics_of(pipeline.targets))
    registered = registry_conn_id if registered_of(pipeline.format) or sends_avro else None
    has_lake = bool(lake_places(pipeline.targets))
    return Door(pipeline.name, postgres_conn_id, kafka_conn_id, registered, pipeline.store, has_lake)


def both(pipeline: Pipeline, default_args: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the defaults that the live DAG and the history DAG share."""
    known = {"owner": pipeline.owner or "lockstep", "retries": 2, "retry_delay": timedelta(seconds=30)}
    return {
        "start_date": SCHEDULE_BEGIN,
        "catchup": False,
        "user_defined_macros": submit.MACROS,
        "default_args": known | (default_args or {}),
    }


def dag_for(  # noqa: PLR0913 - each is a setting that a DAG file may give
    pipeline: Pipeline,
    *,
    postgres_conn_id: str = "postgres_default",
    kafka_conn_id: str = "kafka_default",
    spark_conn_id: str = "spark_default",
    registry_conn_id: str = "lockstep_registry",
    default_args: dict[str, Any] | None = None,
    tasks: str = EACH,
    wake: str | None = None,
    **settings: Any,
) -> DAG:
    """Returns the live DAG of a pipeline, under its name. `settings` for Airflow's `DAG` override the defaults here.

    `spark_conn_id` names a master, for spark-submit, or a running Spark Connect server. Safety rests on the ledger
    alone. `max_active_runs` only saves runs that would find the batch held. With `tasks="one"` all steps are one task,
    in its own process. With `wake="kafka"` records that wait start a run, beside the schedule.
    """
    if tasks not in (EACH, ONE):
        raise BadDefinition(f'{pipeline.name}: tasks is {tasks!r}: it must be "{EACH}" or "{ONE}"')
    door = door_of(pipeline, postgres_conn_id, kafka_conn_id, registry_conn_id)
    tables = " and ".join(target.table for target in pipeline.targets)
    ours: dict[str, Any] = both(pipeline, default_args) | {
        "max_active_runs": 1,
        "tags": ["lockstep", "live", *topic_tags(pipeline.topic)],
        "description": f"Kafka {topics_named(pipeline.topic)} to {tables}, one gap-checked batch a run",
        "doc_md": LIVE_DAG_ABOUT.format(
            topic=topic_words(pipeline.topic), table=tables.replace(" and ", "` and `"), how=_how(pipeline)
        ),
    }
    schedule = with_wake_ups(pipeline, settings.pop("schedule", pipeline.schedule), wake, kafka_conn_id)
    with DAG(pipeline.name, schedule=schedule, **(ours | settings)) as dag:
        make = _one if tasks == ONE else _each
        announced = make(door, spark_conn_id, assets_of(pipeline))
        tell_hours(door, hours_of(pipeline), announced)
        send_behind(door, pipeline, show_behind(door, pipeline, announced))
        archive_beside(door, pipeline)
        for each in dag.tasks:
            each.operator_extra_links = (OneTaskLink() if tasks == ONE else BatchLink(),)
    if "params" not in settings:
        give_form(dag, PARAMS)
    return dag


def give_form(dag: DAG, form: Mapping[str, Param]) -> None:
    """Gives a DAG one of our forms, unchecked and behind its tasks.

    Airflow would check it, and copy it for each task, at each parse. Tests check our forms. A task finds the form's
    values by its DAG.
    """
    object.__setattr__(dag, "params", ParamsDict(dict(form)))


def _one(door: Door, spark_conn_id: str, assets: list[Asset]) -> Any:
    """Adds the one task that takes a batch from its plan to its announcement."""
    about = "Plans, reads, validates, commits and announces one batch."
    return BatchOperator(task_id=RUN, door=door, spark_conn_id=spark_conn_id, assets=assets, doc=about)


def _each(door: Door, spark_conn_id: str, assets: list[Asset]) -> Any:
    """Adds a task for each step, and returns the last one."""

    @task
    def plan() -> int:
        """Plans the next batch, or says why there is none."""
        return steps.plan_batch(door)

    stage = submit.submitted(
        door,
        spark_conn_id,
        "stage_batch.py",
        ["{{ ti.xcom_pull(task_ids='plan') }}"],
        task_id="stage",
        pre_execute=submit.lead_to(door),
        post_execute=submit.look_after(door),
        doc="Reads exactly the batch's ranges and stages the rows.",
    )

    @task
    def validate(batch_id: int) -> str | int:
        """Checks the staged rows and records the verdict. Returns the attempt that may be committed."""
        return steps.validate_batch(door, batch_id)

    @task
    def commit(batch_id: int, fence: str | int) -> None:
        """Commits results and offsets together, in one transaction."""
        steps.commit_validated_batch(door, batch_id, fence)

    @task(outlets=assets)
    def announce(batch_id: int, fence: str | int) -> None:
        """Announces the commit: asset event, lineage, metrics, consumer group."""
        steps.announce_batch(door, assets, batch_id, fence)

    batch_id = plan()
    fence = validate(batch_id)  # type: ignore[arg-type]  # TaskFlow hands the value over at run time
    announced = announce(batch_id, fence)  # type: ignore[arg-type]
    batch_id >> stage >> fence >> commit(batch_id, fence) >> announced  # type: ignore[arg-type]
    return announced
