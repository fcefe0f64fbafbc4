"""Tests that `check` takes the schedules that Airflow takes, and no other."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG
from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.timetables.base import DagRunInfo, TimeRestriction

from lockstep.core.pipeline.definition import Append, Json, Pipeline
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.steps.inspect.check import faults

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)
TARGET_SQL = "create table public.a (id text)"


def takes(folder: PipelineFolder) -> bool:
    """Asks `lockstep check` by the step behind it."""
    return not faults(folder, [folder.pipeline.columns], "a")


def airflow_takes(schedule: str | None) -> bool:
    """Makes a DAG of that schedule, and asks Airflow's scheduler for its first run, where cron says when one comes."""
    try:
        with DAG("a", schedule=schedule, start_date=BEGIN, max_active_runs=1) as dag:
            dag.timetable.validate()
        timetable = coerce_to_core_timetable(dag.timetable)
        first = timetable.next_dagrun_info(
            last_automated_data_interval=None,
            restriction=TimeRestriction(earliest=None, latest=None, catchup=False),
        )
    except Exception:  # noqa: BLE001 - whatever Airflow raises is its no
        return False
    return isinstance(first, DagRunInfo) or schedule in {None, "@once", "@continuous"}


@pytest.mark.parametrize(
    "schedule",
    [
        *(None, "@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly"),
        *("@midnight", "@annually", "*/5 * * * *", "0 9-17 * * mon-fri", "0 0 L * *", "0 0 * * mon#1", "5-1 * * * *"),
        *("15 4 * * * 30", "0 0 29 2 *"),
        *("", "every day", "99 * * * *", "* * * *", "*/0 * * * *", "x * * * *", "@reboot", "@fortnightly", "H * * * *"),
        *("0 0 31 2 *", "0 0 * * 8", "? ? ? ? ?", "0 0 0 * *"),
    ],
)
def test_check_and_airflow_say_the_same_of_a_schedule(schedule):
    pipeline = Pipeline("a", "t", Json("id string"), Append("public.a"), schedule=schedule)
    folder = PipelineFolder(pipeline, path=None, transform=None, expectations=None, target_sql=TARGET_SQL, decode=None)
    assert takes(folder) == airflow_takes(schedule)
