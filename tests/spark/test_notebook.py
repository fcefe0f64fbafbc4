"""Tests the records of a batch in a notebook: exactly those that the batch read, with keys, values and headers."""

from __future__ import annotations

import json

from confluent_kafka import Producer

import lockstep
from lockstep.engine.spark.session import session
from support.scenes.here import Here


def test_the_records_of_a_batch_are_those_of_its_ranges(drill, produce, monkeypatch):
    here = Here(drill)
    monkeypatch.setenv("LOCKSTEP_DSN", here.drill.dsn)
    monkeypatch.setenv("LOCKSTEP_KAFKA", here.drill.kafka)
    here.drain()
    first = [batch for batch, _ in here.drill.committed()]
    later = [(f"k{n}", json.dumps({"id": f"late{n}", "n": n})) for n in range(5)]
    produce(here.drill.topic, later)
    headers, stamp = [("trace", b"\xff\x00"), ("none", None)], 1_700_000_000_123
    producer = Producer({"bootstrap.servers": here.drill.kafka})
    producer.produce(here.drill.topic, json.dumps({"id": "alone", "n": 5}), None, headers=headers, timestamp=stamp)
    producer.flush(20)
    here.drain()
    (batch,) = {batch for batch, _ in here.drill.committed()} - set(first)

    frame = lockstep.records(session(), "drill", batch=batch)

    found = frame.collect()
    assert sorted((row.key.decode(), row.value.decode()) for row in found if row.key) == later
    held = here.drill.ask("select _offset, id from public.drill where _batch = %s", batch)
    assert sorted((row.offset, json.loads(row.value)["id"]) for row in found) == sorted(held)
    assert {row.topic for row in found} == {here.drill.topic}
    (alone,) = [row for row in found if row.key is None]
    assert alone.timestamp.timestamp() == stamp / 1000
    assert json.loads(alone.headers) == [{"key": "trace", "value": "/wA="}, {"key": "none"}]
    assert lockstep.records(session(), "drill", batch=batch).count() == len(later) + 1, "it may be asked again"
