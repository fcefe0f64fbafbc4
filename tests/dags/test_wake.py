"""Tests the wake-ups of a pipeline: the schedule of its DAG, what the trigger keeps, and what it sees of a real broker."""

from __future__ import annotations

import asyncio
import json

import pytest
from airflow.sdk import Asset
from airflow.serialization.serialized_objects import DagSerialization
from airflow.triggers.base import BaseEventTrigger

from lockstep import Append, Json, Pipeline, Topics
from lockstep.adapters.kafka.broker import Broker
from lockstep.airflow import dags_for
from lockstep.airflow.wake import trigger as module
from lockstep.airflow.wake.trigger import RecordsTrigger
from lockstep.core.errors import BadDefinition
from lockstep.core.offsets import TopicPartition
from lockstep.core.settings import KAFKA_OPTIONS


def pipeline(topic="orders.v1", schedule="*/5 * * * *"):
    return Pipeline("orders", topic, Json("id string"), Append("public.orders"), schedule=schedule)


@pytest.mark.parametrize(
    ("topic", "kept"),
    [
        pytest.param("orders.v1", "orders.v1", id="one"),
        pytest.param(("a", "b"), ["a", "b"], id="several"),
        pytest.param(Topics("orders-.*"), {"pattern": "orders-.*", "new": "earliest", "limit": 500}, id="a pattern"),
    ],
)
def test_a_dag_has_wake_ups_beside_its_schedule_and_no_password_in_them(monkeypatch, topic, kept):
    extra = {"bootstrap.servers": "broker:9092", "sasl.password": "a-secret"}
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", json.dumps({"conn_type": "kafka", "extra": extra}))

    live, history = dags_for(pipeline(topic), wake="kafka", kafka_conn_id="events")

    assert (live.timetable.timetable.expression, type(history.timetable).__name__) == (
        "*/5 * * * *",
        "CronDataIntervalTimetable",
    )
    (asset,) = live.timetable.asset_condition.objects
    (watcher,) = asset.watchers
    assert (asset.name, watcher.name) == ("orders.waiting", "orders.waiting")
    path, values = watcher.trigger.serialize()
    assert path == "lockstep.airflow.wake.trigger.RecordsTrigger"
    assert values == {"pipeline": "orders", "topic": kept, "kafka_conn_id": "events", "seconds": 5.0}
    assert RecordsTrigger(**json.loads(json.dumps(values))).serialize() == (path, values)
    assert BaseEventTrigger.hash(path, values) == BaseEventTrigger.hash(path, json.loads(json.dumps(values)))
    written = json.dumps(DagSerialization.to_dict(live))
    assert path in written
    assert "a-secret" not in written


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"wake": "redis"}, r"orders: wake is 'redis': it must be \"kafka\""),
        ({"wake": "kafka", "schedule": None}, r'wake="kafka" is beside a schedule of times, and the schedule is None'),
        ({"wake": "kafka", "schedule": [Asset("a")]}, r'wake="kafka" is beside a schedule of times'),
    ],
)
def test_wake_ups_without_times_are_refused(settings, says):
    with pytest.raises(BadDefinition, match=says):
        dags_for(pipeline(), **settings)


def test_a_trigger_fires_for_new_records_and_not_for_those_that_are_committed(kafka, topic, produce, monkeypatch):
    name = topic(partitions=2)
    produce(name, [("k", "{}")] * 3)
    monkeypatch.setenv("LOCKSTEP_KAFKA", kafka)
    monkeypatch.delenv(KAFKA_OPTIONS, raising=False)
    looks = []
    real = module.look_for_records
    monkeypatch.setattr(module, "look_for_records", lambda *args: looks.append(1) or real(*args))

    async def until(condition, seconds=20):
        for _ in range(int(seconds / 0.02)):
            if condition():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("it did not come")

    async def scene():
        events = []

        async def listen():
            async for event in RecordsTrigger(f"woken_{name}", name, "events", 0.02).run():
                events.append(event.payload["waiting"])  # noqa: PERF401 - read while it goes on

        task = asyncio.create_task(listen())
        await until(lambda: events == [3])
        seen = len(looks)
        await until(lambda: len(looks) > seen + 3)
        assert events == [3], "one wake-up, as long as nothing else comes"
        await asyncio.to_thread(Broker(kafka).mirror, f"lockstep-woken_{name}", {TopicPartition(name, 0): 3})
        await asyncio.to_thread(produce, name, [("k", "{}")] * 2, 1)
        await until(lambda: len(events) == 2)
        assert events == [3, 2]
        await asyncio.to_thread(Broker(kafka).mirror, f"lockstep-woken_{name}", {TopicPartition(name, 1): 2})
        seen = len(looks)
        await until(lambda: len(looks) > seen + 3)
        assert events == [3, 2], "all is committed"
        monkeypatch.setenv("LOCKSTEP_KAFKA", "127.0.0.1:1")
        monkeypatch.setattr("lockstep.adapters.kafka.client.ANSWER_SECONDS", 0.2)
        seen = len(looks)
        await until(lambda: len(looks) > seen + 1)
        assert not task.done(), "a broker that is away is asked again"
        task.cancel()

    asyncio.run(scene())
