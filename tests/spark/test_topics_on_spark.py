"""Tests batches over several topics on Spark: each way of reading, per batch and per partition, with the topic's name."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.changes.person import Person
from lockstep.core.planning.bounds import parse_bound
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.ledger.views.tracing import outcome_of_record
from lockstep.steps.batch.run import until_idle
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests.requests import NewRequest, open_request

WAYS = {
    "Spark's source per batch": {"envelope": 'Envelope(topic="came_from", partition="p")'},
    "Spark's source per partition": {
        "envelope": 'Envelope(topic="came_from", partition="p")',
        "guarantee": "PerPartition()",
    },
    "the short way per partition": {"guarantee": "PerPartition()"},
    "the short way per batch": {},
}


def rows(end: str, count: int, partition: int) -> list[tuple[str, str]]:
    return [(f"{end}{n}", json.dumps({"id": f"{end}{partition}-{n}", "n": n})) for n in range(count)]


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_each_way_reads_the_same_records_of_two_topics(pipeline, topic, produce, way):
    eu, us = topic(partitions=2), topic(partitions=2)
    sent = [(eu, "e", 60, 0), (eu, "e", 5, 1), (us, "u", 40, 0)]
    for name, end, count, partition in sent:
        produce(name, rows(end, count, partition), partition)
    more = "came_from text, p int, " if "envelope" in WAYS[way] else ""
    made = pipeline(eu, "id string, n int", f"id text, n int{', ' + more.rstrip(', ') if more else ''}", **WAYS[way])
    file = Path(os.environ["LOCKSTEP_PIPELINES"]) / made.name / "__init__.py"
    file.write_text(file.read_text().replace(f'"{eu}"', repr((eu, us))))

    made.run_until_idle()

    wanted = sorted((name, p, f"{end}{p}-{n}", n) for name, end, count, p in sent for n in range(count))
    where = "came_from, p" if more else "o.topic, o.partition"
    query = f"select {where}, d.id, d.n from public.{made.name} d join lockstep.origin o using (_stream)"
    assert sorted(made.ask(query)) == wanted
    assert made.violations() == []
    at, engine, folder = made.parts()
    assert [str(each) for each in verify(at.conn, at.broker, folder, deep=True) if not each.ok] == []

    before = made.ask(f"select count(distinct _batch) from public.{made.name}")
    wish = NewRequest(Lane.REPLAY, parse_bound("0:0", "--from"), parse_bound("0:50", "--until"), topic=us)
    asked = open_request(at.conn, at.broker, folder, wish, Person("me", "a test"), datetime.now(UTC))
    assert {item.offsets.topic_partition.topic for item in asked.windows} == {us}
    list(until_idle(at, engine, folder, Caller("test"), wait=1, request_id=asked.request_id))
    assert sorted(made.ask(query)) == wanted
    assert made.ask(f"select count(distinct _batch) from public.{made.name}") != before
    with transaction(at.conn, READER) as cur:
        found = outcome_of_record(cur, folder.pipeline, 0, 3, topic=us)
    assert [row["id"] for row in found["rows"]] == ["u0-3"]
    assert made.violations() == []
