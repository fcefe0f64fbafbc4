"""Adds wake-ups to a pipeline's schedule: a run of the schedule makes up for a wake-up that is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetWatcher

from lockstep.adapters.airflow.names import AssetOrTimeSchedule, CronTriggerTimetable
from lockstep.airflow.wake.trigger import RecordsTrigger
from lockstep.core.errors import BadDefinition
from lockstep.core.text import as_plain

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Pipeline

WAKE = "kafka"
LOOK_SECONDS = 5.0


def with_wake_ups(pipeline: Pipeline, schedule: Any, wake: str | None, kafka_conn_id: str) -> Any:
    """Returns the schedule, with wake-ups by the pipeline's topics beside it if `wake` is "kafka".

    Refuses wake-ups without a schedule of times.
    """
    if wake is None:
        return schedule
    if wake != WAKE:
        raise BadDefinition(f'{pipeline.name}: wake is {wake!r}: it must be "{WAKE}"')
    if not isinstance(schedule, str) and not getattr(schedule, "can_be_scheduled", False):
        raise BadDefinition(
            f'{pipeline.name}: wake="{WAKE}" is beside a schedule of times, and the schedule is {schedule!r}: '
            "a run of the schedule makes up for a wake-up that is lost"
        )
    times = CronTriggerTimetable(schedule, timezone="UTC") if isinstance(schedule, str) else schedule
    return AssetOrTimeSchedule(timetable=times, assets=[waiting_of(pipeline, kafka_conn_id)])


def waiting_of(pipeline: Pipeline, kafka_conn_id: str = "kafka_default") -> Asset:
    """Returns the asset of a pipeline's waiting records, which Airflow's triggerer watches."""
    topic = as_plain(pipeline.topic)
    plain = list(topic) if isinstance(topic, tuple) else topic
    trigger = RecordsTrigger(pipeline.name, plain, kafka_conn_id, LOOK_SECONDS)
    return Asset(
        name=f"{pipeline.name}.waiting",
        uri=f"lockstep://{pipeline.name}/waiting",
        group="lockstep",
        watchers=[AssetWatcher(name=f"{pipeline.name}.waiting", trigger=trigger)],
    )
