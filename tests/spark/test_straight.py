"""Tests that a task reads, decodes and stages its part in one worker, whatever its records are."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.registry import registry as registry_of
from lockstep.engine.chosen import ChosenEngine, ProcessReader
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.engine.spark import part_jobs
from support.engines import IN_PROCESS
from support.fakes.registry import a_record, a_registry

COLUMNS, DDL = "id string, n int", "id text, n int"
PER: dict[str, Any] = {"per batch": {}, "per partition": {"guarantee": "PerPartition()"}}
THROUGH = {"transform": "def transform(records):\n    return records\n"}
ONE_LONG = ["per batch", pytest.param("per partition", marks=pytest.mark.long)]
RECORDS = 6_000  # of each of four partitions: two tasks have two each


def record(i: int) -> tuple[str, str]:
    return f"k{i}", json.dumps({"id": f"r{i}", "n": i})


@pytest.fixture
def short(monkeypatch):
    """Returns the number of parts that each read of tasks was asked for."""
    parts: list[int] = []
    way = part_jobs.written

    def watched(given, *more: Any, **named: Any):
        parts.append(len(given.parts))
        return way(given, *more, **named)

    monkeypatch.setattr(part_jobs, "written", watched)
    return parts


@pytest.fixture
def four(topic, produce):
    name = topic(partitions=4)
    for partition in range(4):
        produce(name, map(record, range(RECORDS)), partition=partition)
    return name


@pytest.mark.parametrize("per", PER)
def test_good_records_are_read_once(pipeline, four, short, per):
    made = pipeline(four, COLUMNS, DDL, **PER[per])
    made.run()
    assert short == [2]
    assert made.ask("select sum(delivered), sum(written), sum(rejected) from lockstep.result") == [(24_000, 24_000, 0)]
    assert made.violations() == []


@pytest.mark.parametrize("per", PER)
def test_a_part_with_a_bad_record_is_read_once_as_well(pipeline, four, produce, short, per):
    produce(four, [("bad", "no JSON"), *map(record, range(10))], partition=3)
    made = pipeline(four, COLUMNS, DDL, **PER[per])
    made.run()
    assert short == [2]
    assert made.ask("select sum(delivered), sum(written), sum(rejected) from lockstep.result") == [(24_011, 24_010, 1)]
    assert made.ask("select convert_from(value, 'UTF8') from lockstep.reject") == [("no JSON",)]
    assert made.ask(f"select count(*), count(distinct (_stream, _offset)) from public.{made.name}") == [
        (24_010, 24_010)
    ]
    assert made.violations() == []


@pytest.mark.parametrize("per", ONE_LONG)
def test_one_partition_is_cut_for_all_tasks_unless_it_is_committed_whole(pipeline, topic, produce, short, per):
    """The cut lies within records of an aborted transaction, and a record of the second piece is no JSON."""
    name = topic(partitions=1)
    produce(name, map(record, range(RECORDS)), partition=0)
    produce(name, map(record, range(5)), partition=0, end="abort")
    produce(name, [*map(record, range(RECORDS, 2 * RECORDS - 6)), ("bad", "no JSON")], partition=0)
    made = pipeline(name, COLUMNS, DDL, **PER[per])
    made.run()
    assert short == [2 if per == "per batch" else 1]
    assert made.ask("select delivered, written, rejected, last_offset from lockstep.result") == [
        (2 * RECORDS - 5, 2 * RECORDS - 6, 1, 2 * RECORDS)
    ]
    assert made.ask(f"select count(*), count(distinct n), max(n) from public.{made.name}") == [
        (2 * RECORDS - 6, 2 * RECORDS - 6, 2 * RECORDS - 7)
    ]
    assert made.violations() == []


AVRO = 'Avro("id string, n int, amount decimal(12,2), at timestamp", key="id")'
AVRO_DDL = "id text, n int, amount numeric(12,2), at timestamptz"
AMOUNT = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 1}
MAY_1 = datetime(2026, 5, 1, tzinfo=UTC)
OLD = a_record(("id", "string"), ("n", ["null", "int"]), ("amount", AMOUNT))
NEW = a_record(
    *((f["name"], f["type"]) for f in OLD["fields"]), ("at", {"type": "long", "logicalType": "timestamp-millis"})
)


@pytest.mark.parametrize("per", ONE_LONG)
def test_avro_gives_the_same_rows_and_reasons_here_in_tasks_and_through_a_transform(
    pipeline, topic, produce, short, monkeypatch, per
):
    """Reads one log in this process and in tasks, and through a frame of Spark's."""
    name = topic(partitions=4)
    with a_registry() as server:
        monkeypatch.setenv("LOCKSTEP_REGISTRY", server.url)
        old, new = server.register("t", OLD), server.register("t", NEW)

        def good(i: int) -> tuple[str, bytes]:
            row = {"id": f"r{i}", "n": i if i % 3 else None, "amount": Decimal(i) / 10, "at": MAY_1}
            return f"k{i}", server.encode(new if i % 2 else old, row)

        first = good(2)[1]
        bad = [
            ("cut", first[:-1]),
            ("more", first + b"x"),
            ("id", b"\0\0\0\0\x63" + first[5:]),
            ("none", None),
            ("text", b"Avro"),
        ]
        for partition in range(4):
            produce(name, [good(i) for i in range(600)], partition=partition)
        by_driver, by_spark = (pipeline(name, "", AVRO_DDL, form=AVRO, **more) for more in (PER[per], THROUGH))
        folder, reader = by_driver.parts()[2], KafkaRanges(by_driver.kafka, KafkaOptions())
        known = registry_of(server.url, {}, str)
        by_driver.run(
            ChosenEngine(folder, lambda: ProcessReader(folder, reader, by_driver.dsn, known), no_spark, IN_PROCESS)
        )
        assert short == []
        produce(name, [*bad, *(good(i) for i in range(90))], partition=3)
        by_driver.run()
        by_spark.run()

    assert len(short) == 1
    rows, rejects = found(by_driver)
    assert len(rows) == 4 * 600 + 90
    assert {row[2:] for row in rows if row[2] == "r5"} == {("r5", 5, Decimal("0.50"), MAY_1)}
    assert {row[2:] for row in rows if row[2] == "r6"} == {("r6", None, Decimal("0.60"), None)}
    assert [key for key, _ in rejects] == [key for key, _ in bad]
    assert (rows, rejects) == found(by_spark)
    assert by_driver.violations() == by_spark.violations() == []


def no_spark():
    raise AssertionError("Spark was asked for")


def found(made) -> tuple[list, list]:
    """Returns the rows of a pipeline with their coordinates, and the keys and reasons of its rejects."""
    its = f"join lockstep.stream s on s.stream_id = _stream and s.pipeline = '{made.name}'"
    rows = made.ask(f"select partition, _offset, id, n, amount, at from public.{made.name} {its} order by 1, 2")
    return rows, made.ask(
        "select convert_from(key, 'UTF8'), reason from lockstep.reject join lockstep.stream using (stream_id)"
        f" where pipeline = '{made.name}' order by \"offset\""
    )
