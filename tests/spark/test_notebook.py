"""Tests the records of a batch in a notebook: exactly those that the batch read, with keys, values and headers."""

from __future__ import annotations

import json

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
    here.drain()
    (batch,) = {batch for batch, _ in here.drill.committed()} - set(first)

    frame = lockstep.records(session(), "drill", batch=batch)

    assert sorted((row.key.decode(), row.value.decode()) for row in frame.collect()) == later
    held = here.drill.ask("select _offset, id from public.drill where _batch = %s", batch)
    assert sorted((row.offset, json.loads(row.value)["id"]) for row in frame.collect()) == sorted(held)
