"""Tests the default engine in a real Airflow: a Spark application reads each batch, and `engine="process"` starts none."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer

from dags.one_airflow.test_history import EACH_HOUR, LONG, History
from support.oracles.spark_events import applications

pytestmark = [pytest.mark.timeout(1000), pytest.mark.long]
RECORDS = 15_000
DEFINITION = """
from lockstep import Append, Json, Pipeline
P = Pipeline(
    name="{name}", topic="{topic}", format=Json("id string, n int, user string", rest="more"), owner="tests",
    target=Append("public.{name}"), start="{start}",
)
"""
IN_PROCESS = DEFINITION.replace('owner="tests"', 'owner="tests", engine="process"')
TABLE = """create table if not exists public.{name} (id text, n int, "user" text, more jsonb, _stream int4 not null,
    _offset int8 not null, _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));"""
ODD = 'a "quoted"\\\n\tline \u2028 of \U0001f40b'
Row = tuple[str, int | None, str | None, dict | None]


def record(i: int) -> tuple[bytes | None, Row | None]:
    """Returns a record's value and its row, which a bad record has not."""
    name, nested = f"live-{i}", f'{{"name":"Zo\u00eb","tags":[1,{{"deep":{i}.10}}]}}'
    special: dict[int, tuple[str | None, Row | None]] = {
        0: (f'{{"id":"{name}","n":{i},"user":{nested}}}', (name, i, nested, None)),
        1: (f'{{"id":"{name}","user":1.10,"x":[{i}]}}', (name, None, "1.10", {"x": [i]})),
        2: (json.dumps({"id": name, "n": -i, "user": ODD}), (name, -i, ODD, None)),
        3: ('{"id":', None),
        4: (f'{{"id":"{name}","n":"many"}}', None),
        5: (None, None),
        6: (f'{{"id":"{name}","n":1,"user":"\\u0000"}}', None),
    }
    value, row = special.get(i % 100, (f'{{"id":"{name}","n":{i}}}', (name, i, None, None)))
    return value.encode() if value else None, row


class OnDefault(History):
    """A pipeline on the default connection, with one hour of records before its start and many after it."""

    def __init__(self, house, name: str, definition: str) -> None:
        self.end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
        self.begin = self.end - timedelta(hours=1)
        past = [self.begin + timedelta(minutes=i) for i in range(EACH_HOUR)]
        self.house, self.api, self.dag_id = house, house.api, f"{name}_history"
        self.live = house.pipeline(name, past=past, plain=(definition, TABLE))
        self.run()
        producer = Producer({"bootstrap.servers": house.place.kafka})
        for i in range(RECORDS):
            producer.produce(self.live.topic, record(i)[0], f"k{i}")
        producer.flush(60)

    def run(self) -> None:
        assert self.live.over(self.live.trigger(), LONG) == "success"

    def replay(self) -> None:
        form = {"from_time": self.begin.isoformat(), "until_time": datetime.now(UTC).isoformat()}
        assert self.over(self.trigger(action="replay", **form)) == "success"

    def content(self) -> list[tuple]:
        return sorted(self.live.ask(f'select id, n, "user", more from public.{self.live.name}'), key=str)

    def rejects(self) -> int:
        query = "select count(*) from lockstep.reject join lockstep.batch using (batch_id) where pipeline = %s"
        return self.live.ask(query, self.live.name)[0][0]

    def attempts(self) -> list[tuple[str, str, str, str | None]]:
        """Returns lane, engine, its reason and Spark's application of each attempt, in their order."""
        query = (
            "select lane, route ->> 'way', route ->> 'because', spark_application_id"
            " from lockstep.attempt join lockstep.batch using (batch_id) where pipeline = %s order by batch_id, attempt.token"
        )
        return self.live.ask(query, self.live.name)

    def applications(self) -> list[str]:
        """Returns the Spark applications of this pipeline, as their event logs name them."""
        return applications(self.house.home / "events", f"lockstep {self.live.name}")


def everything(past: OnDefault) -> list[tuple[str, str, str, str | None]]:
    """Runs, backfills and replays. Each record has its row once, whatever the engine. Returns the attempts."""
    past.run()
    lives = [row for _, row in map(record, range(RECORDS)) if row]
    assert past.content() == sorted(lives, key=str)
    past.backfilled(past.backfill())
    filled: list[Row] = [(f"r{i}", i, None, None) for i in range(EACH_HOUR)]
    assert past.content() == sorted(lives + filled, key=str)
    before = past.batches_of_rows()
    past.replay()
    assert past.content() == sorted(lives + filled, key=str)
    assert past.batches_of_rows() & before == set()
    assert past.rejects() == RECORDS - len(lives) == 600
    assert past.lanes().keys() == {"live", "fill", "replay"}
    assert past.live.violations() == []
    return past.attempts()


def test_runs_replays_and_backfills_are_applications_that_the_ledger_names_and_a_process_starts_none(house):
    on_spark, in_process = (OnDefault(house, *its) for its in (("by_default", DEFINITION), ("in_process", IN_PROCESS)))

    attempts = everything(on_spark)

    assert {(way, because.partition(";")[0]) for _, way, because, _ in attempts} == {("spark", "the default")}
    assert [application for *_, application in attempts] == on_spark.applications()
    assert [lane for lane, *_ in attempts] == ["live", "fill", "replay"]

    assert {(way, application) for _, way, _, application in everything(in_process)} == {("process", None)}
    assert in_process.applications() == []
