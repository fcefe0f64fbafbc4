"""Tests that a planned range is read whole, or that the read fails, with a transform and without one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.engine.spark.engine import SparkEngine
from lockstep.engine.spark.jobs import jobs
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.context import Context


@pytest.fixture(params=["rows", "a transform"])
def loaded(request, pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(20)])
    same = "def transform(records):\n    return records\n"
    return pipeline(
        name, "id string, n int", "id text, n int", transform=same if request.param == "a transform" else None
    )


def test_every_record_of_the_range_is_read_and_none_beside_it(loaded):
    loaded.run()
    assert loaded.ask(f"select count(*), min(_offset), max(_offset) from public.{loaded.name}") == [(20, 0, 19)]
    assert loaded.violations() == []


def test_records_that_are_deleted_before_the_read_fail_it(loaded, monkeypatch):
    folder = load(loaded.name)
    at, engine = Context(loaded.dsn, Broker(loaded.kafka)), SparkEngine(folder, loaded.kafka, loaded.dsn)
    where = TopicPartition(folder.pipeline.topic, 0, 7)
    begun = jobs().application()
    admin = AdminClient({"bootstrap.servers": loaded.kafka})

    def trims_before_the_read(_work: Any) -> Any:
        admin.delete_records([where])[where].result(20)
        return begun

    monkeypatch.setattr(engine, "application", trims_before_the_read)
    batch = plan(at.conn, at.broker, folder, Caller("me"), datetime.now(UTC)).batch_id
    with pytest.raises(Refusal, match="could not be read"):
        stage(at, engine, folder, batch, Caller("me"))
    at.close()
