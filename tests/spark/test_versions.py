"""Tests a history through Kafka, Spark and Postgres: of change records, of tombstones, and of what a transform makes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.changes.tried import Record
from lockstep.core.errors import BadData, BadDefinition
from lockstep.steps.proof.verify import verify
from lockstep.testing import tried
from support.fakes.captured import PLACEHOLDER

MOMENTS = "valid_from timestamptz not null, valid_until timestamptz, _deleted boolean not null"
DDL = f"id bigint not null, name text, {MOMENTS}"
FORM = 'Debezium("id bigint, name string")'
HISTORY = 'History("TABLE", key=("id",))'
ROWS = """select id, name, _deleted, case when valid_until is null then 'current' when valid_until = valid_from then 'never'
    when valid_until = lead(valid_from) over (partition by id order by _offset) then 'until the next' end
    from public.{} order by id, _offset"""
DROPS = "def transform(records):\n    return records.select('_stream', '_offset', 'id', 'name')\n"
KEEPS = "def transform(records):\n    return records.where('name != \"hidden\"')\n"

pytestmark = pytest.mark.long


def changed(op: str, key: int, name: str | None = None) -> tuple[str, str]:
    after = None if op == "d" else {"id": key, "name": name}
    value = {"op": op, "source": {}, "before": {"id": key}, "after": after}
    return json.dumps({"id": key}), json.dumps(value)


def faults(loaded: Any) -> list:
    checks = verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True)
    return [check for check in checks if not check.ok]


@pytest.mark.parametrize("guarantee", ["PerBatch()", "PerPartition()"])
def test_every_version_of_a_captured_row_stands_and_its_deletion_ends_it(pipeline, topic, produce, guarantee):
    name = topic(partitions=2)
    more = {} if guarantee == "PerBatch()" else {"guarantee": guarantee}
    made = pipeline(name, "", DDL, target=HISTORY, form=FORM, **more)
    batches = [
        [changed("c", 1, "a"), changed("c", 2, "x"), changed("u", 1, "b")],
        [changed("d", 1), (json.dumps({"id": 1}), None)],
        [changed("c", 1, "c"), changed("d", 2)],
    ]
    for records in batches:
        for record in records:  # each at a time of its own
            produce(name, [record], partition=0)
        made.run()

    assert faults(made) == []
    assert [row for row in made.ask(ROWS.format(made.name)) if not row[2]] == [
        (1, "a", False, "until the next"),
        (1, "b", False, "until the next"),
        (1, "c", False, "current"),
        (2, "x", False, "until the next"),
    ]
    deletions = [row for row in made.ask(ROWS.format(made.name)) if row[2]]
    assert {row[:2] for row in deletions} == {(1, None), (2, None)}
    assert {row[3] for row in deletions} == {"never"}


def test_a_change_record_that_leaves_a_value_open_is_refused_with_the_remedy(pipeline, topic, produce):
    name = topic(partitions=1)
    made = pipeline(name, "", DDL, target=HISTORY, form=FORM)
    produce(name, [changed("c", 1, "a"), changed("u", 1, PLACEHOLDER)])

    with pytest.raises(BadData, match="offset 1 leaves name open, and a version needs every value: let the source"):
        made.run()
    assert made.ask(f"select count(*) from public.{made.name}") == [(0,)]


def test_a_transform_makes_versions_and_one_that_drops_their_moment_is_refused(pipeline, topic, produce):
    name = topic(partitions=1)
    made = pipeline(
        name,
        "id bigint, name string",
        DDL,
        target=HISTORY,
        form='Json("id bigint, name string", key="id")',
        transform=KEEPS,
    )
    other = pipeline(
        name,
        "id bigint, name string",
        DDL,
        target=HISTORY,
        form='Json("id bigint, name string", key="id")',
        transform=DROPS,
    )
    for each in ("a", "hidden", "b"):
        produce(name, [("1", json.dumps({"id": 1, "name": each}))])
    produce(name, [("1", None)])
    made.run()

    rows = [(1, "a", False, "until the next"), (1, "b", False, "until the next"), (1, None, True, "never")]
    assert made.ask(ROWS.format(made.name)) == rows
    with pytest.raises(BadDefinition, match="the transform drops _timestamp, from which the versions of"):
        other.parts()[1].columns()


def test_records_that_are_tried_become_the_versions_of_a_run(pipeline, topic):
    made = pipeline(topic(partitions=1), "", DDL, target=HISTORY, form='Json("id bigint, name string", key="id")')
    given = [Record(b'{"id": 1, "name": "a"}', b"1"), Record(b'{"id": 1, "name": "b"}', b"1"), Record(None, b"1")]

    found = tried(made.name, given)

    assert [(row["name"], row["_deleted"], row.line) for row in found.rows] == [
        ("a", False, 1),
        ("b", False, 2),
        (None, True, 3),
    ]
    assert found.verdict.ok
