"""Tests a DAG behind a pipeline that runs once for each complete hour, under a real Airflow with its scheduler."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest
from confluent_kafka import Producer

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.context.systems import stores
from lockstep.core.planning.bounds import parse_bound
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.steps.batch.run import until_idle
from lockstep.steps.context import Context
from lockstep.steps.requests import requests
from support.fakes.plain_engine import PlainEngine
from support.scenes.here import ME
from support.servers.scheduled import an_airflow, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]
HOUR = timedelta(hours=1)
LONG = 300.0
BEHIND = """
from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.sdk import DAG, PartitionedAssetTimetable, task

from lockstep.airflow import hours_of, pipeline_beside

HOURS = hours_of(pipeline_beside(__file__, "hourly"))

with DAG("behind", schedule=PartitionedAssetTimetable(assets=HOURS), is_paused_upon_creation=False):

    @task
    def revision(triggering_asset_events=None):
        return max(event.extra["revision"] for event in triggering_asset_events[HOURS])

    revision()
    SQLExecuteQueryOperator(
        task_id="count", conn_id="postgres_default", parameters={"hour": "{{ dag_run.partition_key }}Z"},
        sql='''select count(t.id) from lockstep.hour_offsets h left join public.hourly t
            on t._stream = h.stream_id and t._offset >= h.from_offset and t._offset < h.until_offset
            where h.pipeline = 'hourly' and h.until = %(hour)s::timestamptz + interval '1 hour' ''',
    )
"""


@pytest.fixture(scope="module")
def house(servers, tmp_path_factory):
    with an_airflow(servers, tmp_path_factory.mktemp("hours")) as made:
        yield made


def dated(drill, begin: datetime, *hours: float) -> None:
    """Writes records so many hours past the beginning."""
    producer = Producer({"bootstrap.servers": drill.house.place.kafka})
    for n, each in enumerate(hours):
        stamp = int((begin + each * HOUR).timestamp() * 1000)
        producer.produce(drill.topic, json.dumps({"id": f"d{n}", "n": n}), partition=0, timestamp=stamp)
    assert producer.flush(20) == 0


def events(house) -> list[dict]:
    """Returns the announcements of the hours, the oldest first."""
    found = house.api.call("GET", "assets/events?limit=100")["asset_events"]
    return sorted((e for e in found if e["name"] == "public.hourly.hours"), key=lambda event: event["id"])


def replay(house, name: str, begin: str, until: str) -> None:
    """Replays offsets of a pipeline, beside its DAGs and without Spark."""
    at, folder = Context(house.place.dsn, Broker(house.place.kafka), stores()), load(name)
    wanted = requests.NewRequest(Lane.REPLAY, parse_bound(begin, "--from"), parse_bound(until, "--until"))
    asked = requests.open_request(at.conn, at.broker, folder, wanted, ME, datetime.now(UTC))
    engine = PlainEngine(folder, house.place.kafka, house.place.dsn)
    assert list(until_idle(at, engine, folder, Caller("me"), 1, request_id=asked.request_id))
    at.close()


def test_an_hour_that_is_complete_runs_the_dag_behind_it_and_an_idle_run_tells_what_was_not_told(house):
    drill = house.pipeline("hourly")
    drill.recreate_topic()
    begin = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 3 * HOUR
    dated(drill, begin, 0.1, 0.2, 1.5, 3.01)
    definition = house.place.pipelines / "hourly" / "__init__.py"
    definition.write_text(definition.read_text().replace('start="earliest"', f'start="{begin.isoformat()}"'))
    (house.place.dags / "behind.py").write_text(BEHIND)
    wait_for(lambda: "behind" in house.api.dags(), "the DAG behind is parsed", LONG)

    assert drill.over(drill.trigger(), LONG) == "success"

    said = wait_for(lambda: len(found := events(house)) >= 2 and found, "the hours are said", LONG)
    keys = [event["partition_key"] for event in said]
    assert keys[:2] == [f"{begin + n * HOUR:%Y-%m-%dT%H:%M:%S}" for n in range(2)]
    first = said[0]["extra"]
    assert (first["from"], first["until"]) == (begin.isoformat(), (begin + HOUR).isoformat())
    assert (first["batches"], first["losses"]) == ([1], [])
    assert [(part["partition"], part["from_offset"], part["until_offset"]) for part in first["offsets"]] == [(0, 0, 2)]

    def counted() -> dict[str, str]:
        runs = [run for run in house.api.runs("behind") if run["state"] == "success"]
        return {run["partition_key"]: str(house.api.xcom("behind", run["dag_run_id"], "count")) for run in runs}

    wait_for(lambda: set(keys) <= counted().keys(), "the DAG behind has run for each of them", LONG)
    assert [re.findall(r"\d+", counted()[key]) for key in keys[:2]] == [["2"], ["1"]]

    conn = psycopg2.connect(house.place.dsn)
    with conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner")
        cur.execute("delete from lockstep.hour_told where until = %s", (begin + HOUR,))
    conn.close()
    idle = drill.trigger()
    assert drill.over(idle, LONG) == "success"
    assert (drill.tasks(idle)["plan"], drill.tasks(idle)["hours"]) == ("skipped", "success")
    assert [event["partition_key"] for event in events(house)][len(keys) :] == [keys[0]]

    nothing = drill.trigger()
    assert drill.over(nothing, LONG) == "success"
    assert [event["partition_key"] for event in events(house)].count(keys[0]) == 2, (
        "once, and once more when it was asked"
    )
    assert {event["extra"]["revision"] for event in events(house)} == {1}

    said = len(events(house))
    replay(house, "hourly", "0:0", "0:1")  # of the one batch, which has the records of the first two hours
    corrects = drill.trigger()
    assert drill.over(corrects, LONG) == "success"
    corrected = [
        (event["partition_key"], event["extra"]["revision"], event["extra"]["batches"]) for event in events(house)
    ]
    assert corrected[said:] == [(key, 2, [2]) for key in keys[:2]]

    def revisions() -> list[int]:
        runs = [run["dag_run_id"] for run in house.api.runs("behind") if run["partition_key"] == keys[1]]
        return sorted(int(house.api.xcom("behind", run, "revision")) for run in runs if _is_over(house, run))

    wait_for(lambda: revisions() == [1, 2], "the DAG behind has run for the correction", LONG)
    assert drill.violations() == []


def _is_over(house, run_id: str) -> bool:
    return {run["dag_run_id"]: run["state"] for run in house.api.runs("behind")}[run_id] == "success"
