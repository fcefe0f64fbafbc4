"""Tests that a task that decodes its whole part by columns does so in one worker. Another part is read again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockstep.engine.spark import short as spark_short

COLUMNS, DDL = "id string, n int", "id text, n int"
PER: dict[str, Any] = {"per batch": {}, "per partition": {"guarantee": "PerPartition()"}}
RECORDS = 6_000  # of each of four partitions: two tasks have two each


def record(i: int) -> tuple[str, str]:
    return f"k{i}", json.dumps({"id": f"r{i}", "n": i})


@pytest.fixture
def short(monkeypatch):
    """Returns, by way, the number of parts that each read was asked for: straight, or the short way."""
    asked = {"written": [], "shortened": []}
    for name, parts in asked.items():
        way = getattr(spark_short, name)

        def watched(given, *more: Any, way=way, parts=parts, **named: Any):
            parts.append(len(given))
            return way(given, *more, **named)

        monkeypatch.setattr(spark_short, name, watched)
    return asked


@pytest.fixture
def four(topic, produce):
    name = topic(partitions=4)
    for partition in range(4):
        produce(name, map(record, range(RECORDS)), partition=partition)
    return name


@pytest.mark.parametrize("per", PER)
def test_records_that_are_all_decoded_by_columns_are_read_once(pipeline, four, short, per):
    made = pipeline(four, COLUMNS, DDL, **PER[per])
    made.run()
    assert short == {"written": [2], "shortened": []}
    assert made.ask("select sum(delivered), sum(written), sum(rejected) from lockstep.result") == [(24_000, 24_000, 0)]
    assert made.violations() == []


@pytest.mark.parametrize("per", PER)
def test_a_part_with_a_record_that_is_not_is_read_again_and_the_others_are_not(pipeline, four, produce, short, per):
    produce(four, [("bad", "no JSON"), *map(record, range(10))], partition=3)
    made = pipeline(four, COLUMNS, DDL, **PER[per])
    made.run()
    assert short["shortened"] == [1]
    assert made.ask("select sum(delivered), sum(written), sum(rejected) from lockstep.result") == [(24_011, 24_010, 1)]
    assert made.ask("select convert_from(value, 'UTF8') from lockstep.reject") == [("no JSON",)]
    assert made.ask(f"select count(*), count(distinct (_stream, _offset)) from public.{made.name}") == [
        (24_010, 24_010)
    ]
    assert made.violations() == []
