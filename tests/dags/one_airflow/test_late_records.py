"""Tests that a history run lets late records count in a real Airflow, once somebody has approved what he was shown."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from dags.one_airflow.test_history import LONG, History
from lockstep.dev.servers.airflow_settings import REVIEWER, USER
from support.servers.scheduled import wait_for

pytestmark = [pytest.mark.timeout(1000), pytest.mark.long]
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
BY_MINUTE = """
from lockstep import Count, EventTime, Json, Pipeline, Tumbling, Windows
P = Pipeline(
    name="{name}", topic="{topic}", format=Json("id string, at timestamp"), owner="tests", start="{start}",
    event_time=EventTime("at", delay="10 seconds"),
    target=Windows("public.{name}", window=Tumbling("1 minute"), key=("id",), totals=(Count("records"),)),
)
"""
TABLE = """create table if not exists public.{name} (window_start timestamptz, window_end timestamptz not null, id text,
    records bigint, _revision int not null, _stream int4 not null, _offset int8 not null, _ordinal int4 not null,
    _batch int8 not null, primary key (window_start, id));"""

BEHIND = """
from airflow.sdk import DAG, task
from lockstep.airflow import pipeline_beside, watermark_of
OVER = watermark_of(pipeline_beside(__file__, "{name}"))
with DAG("behind_{name}", schedule=[OVER], is_paused_upon_creation=False):
    @task
    def told(triggering_asset_events=None):
        return [event.extra for event in triggering_asset_events[OVER]]
    told()
"""


class Late(History):
    """A pipeline with windows, of which one is shown, and a record that came too late for it."""

    def __init__(self, house, name: str) -> None:
        self.house, self.api, self.dag_id = house, house.api, f"{name}_history"
        self.live = house.pipeline(name, past=[datetime.now(UTC)] * 2, plain=(BY_MINUTE, TABLE))
        for seconds in ((), (0, 0, 100, 100), (1000, 1000), (5,)):
            self.happened(*seconds)

    def happened(self, *seconds: int) -> None:
        """Sends events of so many seconds after noon, to one partition and the other. Takes them in without a JVM."""
        producer = Producer({"bootstrap.servers": self.house.place.kafka})
        for number, second in enumerate(seconds):
            event = {"id": "a", "at": (NOON + timedelta(seconds=second)).isoformat()}
            producer.produce(self.live.topic, json.dumps(event), "a", partition=number % 2)
        producer.flush(20)
        servers = {"LOCKSTEP_DSN": self.house.place.dsn, "LOCKSTEP_KAFKA": self.house.place.kafka}
        command = [str(Path(sys.executable).with_name("lockstep")), "run", self.live.name]
        subprocess.run(command, env=os.environ | servers, check=True)

    def dag_behind(self) -> None:
        """Puts a DAG beside the others that runs when the watermark is told."""
        (self.house.place.dags / f"behind_{self.live.name}.py").write_text(BEHIND.format(name=self.live.name))
        wait_for(lambda: f"behind_{self.live.name}" in self.api.dags(), "the DAG behind is parsed", LONG)

    def told(self) -> list[tuple[float, int]]:
        """Returns the events of the watermark, the oldest first: seconds after noon, and windows that were shown."""
        found = self.api.call("GET", "assets/events?limit=100")["asset_events"]
        events = [each for each in found if each["name"] == f"public.{self.live.name}.watermark"]
        return [_facts(each["extra"]) for each in sorted(events, key=lambda each: each["id"])]

    def told_behind(self) -> list[tuple[float, int]]:
        """Returns the events that the DAG behind was run with."""
        dag = f"behind_{self.live.name}"
        runs = [run["dag_run_id"] for run in self.api.runs(dag) if run["state"] == "success"]
        return [_facts(each) for run in runs for each in ast.literal_eval(str(self.api.xcom(dag, run, "told")))]

    def live_run(self) -> str:
        """Runs the live DAG to its end. Returns the state of its task `emit`."""
        run = self.live.trigger()
        assert self.live.over(run, LONG) == "success"
        return self.live.tasks(run)["emit"]

    def first(self) -> tuple[int, int, int]:
        """Returns the records and the revision of the first window, and how many rows are late."""
        query = f"""select records, _revision, (select count(*) from lockstep.late where target = 'public.{self.live.name}')
            from public.{self.live.name} order by window_start limit 1"""
        return self.live.ask(query)[0]


def _facts(extra: dict) -> tuple[float, int]:
    return (datetime.fromisoformat(extra["watermark"]) - NOON).total_seconds(), extra["windows"]


def test_late_records_count_once_somebody_has_approved_what_he_was_shown(house):
    past = Late(house, "tardy")
    assert past.first() == (2, 1, 1)

    asked = past.trigger(action="admit-late", approval=True, reason="the shop was offline")
    shown = past.until_asked(asked)
    assert "Late rows: 1 before, 0 after." in shown
    assert "| public.tardy | 0 | 1 | 0 | 0 |" in shown
    assert past.first() == (2, 1, 1)
    past.answer(asked, "Approve")

    assert past.over(asked) == "success"
    assert past.first() == (3, 2, 0)
    assert past.decisions() == [
        ("approve", f"{REVIEWER}@{past.dag_id}", "approved as shown"),
        ("admit-late", f"{USER}@{past.dag_id}", "the shop was offline"),
    ]

    assert past.told() == [(990, 0)], "whichever run came first has told it, and no other one"
    assert past.live_run() == "skipped"
    past.dag_behind()
    past.happened(2000, 2000)
    assert past.live_run() == "success", "the command has raised the watermark, and told nobody"
    assert past.told() == [(990, 0), (1990, 0)]
    wait_for(lambda: past.told_behind() == [(1990, 0)], "the DAG behind has run", LONG)
