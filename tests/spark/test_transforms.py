"""A transform changes rows, never the account: what it was given is counted in front of it."""

from __future__ import annotations

import json

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.errors import BadData, BadDefinition
from lockstep.steps.verify import verify

ID = "id string, n int"
DDL = "id text, n int"
START = "from pyspark.sql import functions as F\n"


@pytest.fixture
def source(topic, produce):
    name = topic(partitions=3)
    good = [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(90)]
    produce(name, [*good, ("bad", b"{")])
    return name


def totals(report) -> tuple[int, ...]:
    return tuple(
        sum(getattr(r, name) for r in report.ranges) for name in ("delivered", "written", "filtered", "rejected")
    )


def test_a_filter_is_counted_as_filtered(pipeline, source):
    loaded = pipeline(source, ID, DDL, transform=START + "def transform(r):\n    return r.where(F.col('n') % 3 == 0)\n")
    assert totals(loaded.run()) == (91, 30, 60, 1)
    assert loaded.ask(f"select count(*) from {loaded.name}") == [(30,)]


def test_one_record_may_give_many_rows(pipeline, source):
    fan = START + (
        "def transform(r):\n"
        "    return r.select('_stream', '_offset', 'id', F.posexplode(F.array('n', -F.col('n'))).alias('_ordinal', 'n'))\n"
    )
    loaded = pipeline(source, ID, DDL, transform=fan)
    assert totals(loaded.run()) == (91, 90, 0, 1)
    assert loaded.ask(f"select count(*), sum(n) from {loaded.name}") == [(180, 0)]


def test_a_shuffle_keeps_the_account(pipeline, source):
    mixed = START + "def transform(r):\n    return r.repartition(5, 'id').withColumn('n', F.col('n') + 1)\n"
    loaded = pipeline(source, ID, DDL, transform=mixed)
    assert totals(loaded.run()) == (91, 90, 0, 1)
    assert loaded.ask(f"select count(*), min(n) from {loaded.name}") == [(90, 1)]
    assert loaded.violations() == []


def test_a_record_whose_rows_land_in_several_tasks_is_counted_once(pipeline, source):
    spread = START + (
        "def transform(r):\n"
        "    fan = r.select('_stream', '_offset', 'id', F.posexplode(F.array('n', 'n', 'n')).alias('_ordinal', 'n'))\n"
        "    return fan.repartition(4, '_ordinal').where(F.col('n') % 2 == 0)\n"
    )
    loaded = pipeline(source, ID, DDL, transform=spread)
    assert totals(loaded.run()) == (91, 45, 45, 1)
    assert loaded.ask(f"select count(*) from {loaded.name}") == [(135,)]
    checks = verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=False)
    assert [check.name for check in checks if not check.ok] == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("withColumn('_offset', F.when(F.col('n') != 5, F.col('_offset')))", "whose _offset is null"),
        ("withColumn('_stream', F.when(F.col('n') != 5, F.col('_stream')))", "whose _stream is null"),
        ("withColumn('_ordinal', F.when(F.col('n') != 5, F.lit(0)))", "whose _ordinal is null"),
        ("withColumn('_stream', F.when(F.col('n') != 5, F.col('_stream')).otherwise(F.lit(4711)))", "4711"),
        ("withColumn('_offset', F.when(F.col('n') != 5, F.col('_offset')).otherwise(F.lit(10**9)))", "1000000000"),
    ],
)
def test_a_row_that_does_not_answer_for_a_record_of_the_batch_is_refused(pipeline, source, change, words):
    loaded = pipeline(source, ID, DDL, transform=START + f"def transform(r):\n    return r.{change}\n")
    with pytest.raises(BadData, match=words):
        loaded.run()
    assert loaded.ask("select count(*) from lockstep.commit") == [(0,)]


def test_a_transform_that_returns_nothing_is_refused_in_one_line(pipeline, source):
    loaded = pipeline(source, ID, DDL, transform="def transform(r):\n    r.where('n > 1')\n")
    with pytest.raises(BadDefinition, match="returns NoneType, and must return a DataFrame"):
        loaded.run()


def test_columns_are_what_leaves_the_transform(pipeline, source):
    made = START + "def transform(r):\n    return r.select('_stream', '_offset', (F.col('n') * 2).alias('twice'))\n"
    loaded = pipeline(source, ID, "twice int", transform=made)
    loaded.run()
    assert loaded.ask(f"select max(twice) from {loaded.name}") == [(178,)]


def test_tombstones_pass_a_transform_by(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, [("a", json.dumps({"id": "a", "n": 1})), ("b", json.dumps({"id": "b", "n": 2})), ("a", None)])
    loaded = pipeline(
        name, ID, "id text primary key, n int", target="Upsert", key="id", transform="def transform(r):\n    return r\n"
    )
    assert totals(loaded.run()) == (3, 3, 0, 0)
    assert loaded.ask(f"select id from {loaded.name}") == [("b",)]


def test_a_limit_would_lose_records_and_is_refused(pipeline, topic, produce):
    name = topic(partitions=3)
    produce(name, [(str(i), json.dumps({"id": "x" * 100, "n": i})) for i in range(300_000)])
    loaded = pipeline(name, ID, DDL, transform="def transform(r):\n    return r.limit(1)\n")
    with pytest.raises(BadData, match="limit"):
        loaded.run()
    assert loaded.ask("select count(*) from lockstep.commit") == [(0,)]


def test_a_transform_that_drops_the_coordinates_is_refused_by_name(pipeline, source):
    loaded = pipeline(source, ID, DDL, transform="def transform(r):\n    return r.drop('_offset')\n")
    with pytest.raises(BadDefinition, match="_offset"):
        loaded.run()


def test_a_transform_that_raises_in_a_task_is_the_codes_fault(pipeline, source):
    broken = START + (
        "@F.udf('int')\n"
        "def boom(n):\n"
        "    raise ValueError('no such customer')\n"
        "def transform(r):\n    return r.withColumn('n', boom('n'))\n"
    )
    loaded = pipeline(source, ID, DDL, transform=broken)
    with pytest.raises(BadData, match="no such customer"):
        loaded.run()
    assert loaded.ask("select state, fault from lockstep.attempt") == [("failed", "data")]
