"""Tests that a transform changes rows, never the account, because its input is counted before it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.errors import BadData, BadDefinition
from lockstep.core.planning.decisions import Caller
from lockstep.engine.plans import cuts, reads, shuffles, unrepeatable
from lockstep.engine.spark.session import session
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.proof.verify import verify

ID = "id string, n int"
DDL = "id text, n int"
START = "from pyspark.sql import functions as F\n"
JOIN = """def transform(r):
    names = r.sparkSession.read.json({path!r}).select("n", "name")
    return r.join(F.broadcast(names), "n").drop("id").withColumnRenamed("name", "id")
"""
NEWEST_OF_TEN = """def transform(r):
    last = F.max(F.struct("_stream", "_offset", "n")).alias("last")
    return r.groupBy((F.col("n") % 10).alias("digit")).agg(last, F.count("*").alias("records")).select(
        "last._stream", "last._offset", F.col("digit").cast("string").alias("id"), F.col("records").cast("int").alias("n"))
"""
TWICE = """def transform(r):
    ids = r.groupBy((F.col("n") % 2).alias("odd")).agg(F.count("*").cast("int").alias("n"))
    both = r.select("_stream", "_offset", "id", (F.col("n") % 2).alias("odd")).join(ids, "odd").drop("odd")
    alone = r.select("_stream", "_offset", "id", "n").withColumn("_ordinal", F.lit(1))
    return both.withColumn("_ordinal", F.lit(0)).unionByName(alone)
"""
TIMED = """def transform(r, run):
    return r.withColumn("at", F.lit(run.planned_at)).withColumn("batch", F.lit(run.batch_id).cast("bigint"))
"""

RANGED = """def transform(r, run):
    return r.withColumn("read", F.lit("; ".join(f"{each.topic_partition.partition}:{each.from_offset}-{each.until_offset}"
                                               for each in run.ranges)))
"""


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


def test_a_join_with_a_static_table_counts_what_finds_no_partner_as_filtered(pipeline, source, tmp_path):
    table = tmp_path / "names.json"
    table.write_text("\n".join(json.dumps({"n": n, "name": f"name {n}"}) for n in range(0, 90, 9)))
    loaded = pipeline(source, ID, DDL, transform=START + JOIN.format(path=str(table)))
    assert totals(loaded.run()) == (91, 10, 80, 1)
    assert loaded.ask(f"select id from {loaded.name} where n = 81") == [("name 81",)]


def test_an_aggregate_answers_for_one_record_of_each_group(pipeline, source):
    loaded = pipeline(source, ID, DDL, transform=START + NEWEST_OF_TEN)
    assert totals(loaded.run()) == (91, 10, 80, 1)
    assert loaded.ask(f"select count(*), sum(n), min(n) from {loaded.name}") == [(10, 90, 9)]


def test_records_that_a_transform_uses_several_times_are_read_once_and_counted_once(pipeline, source):
    loaded = pipeline(source, ID, DDL, transform=START + TWICE)
    assert totals(loaded.run()) == (91, 90, 0, 1)
    assert loaded.ask(f"select _ordinal, count(*), sum(n) from {loaded.name} group by 1 order by 1") == [
        (0, 90, 45 * 90),
        (1, 90, 89 * 45),
    ]
    assert loaded.ask("select sum(delivered) from lockstep.source_manifest") == [(91,)]
    with pytest.raises(BadData, match="must not use sample"):
        pipeline(source, ID, DDL, transform=START + TWICE.replace("r.groupBy", "r.sample(0.5).groupBy")).run()


def test_every_attempt_at_a_batch_is_given_the_same_time(pipeline, source):
    loaded = pipeline(source, ID, f"{DDL}, at timestamptz, batch bigint", transform=START + TIMED)
    at, engine, folder = loaded.parts()
    batch = plan(at.conn, at.broker, folder, Caller("test"), datetime.now(UTC)).batch_id
    first, second = (stage(at, engine, folder, batch, Caller("test", take_over=True)) for _ in range(2))
    rows = "select id, n, at, batch, _stream, _offset from lockstep_staging.{} where _reason is null"
    assert loaded.ask(f"({rows.format(first.table)}) except ({rows.format(second.table)})") == []
    told = "select distinct s.at = b.planned_at, s.batch = b.batch_id from lockstep_staging.{} s, lockstep.batch b"
    assert loaded.ask(f"{told.format(second.table)} where s._reason is null") == [(True, True)]


def test_every_attempt_at_a_batch_is_given_the_same_ranges(pipeline, source, produce):
    loaded = pipeline(source, ID, f"{DDL}, read text", transform=START + RANGED)
    ends = {p: bounds.stable_end for p, bounds in Broker(loaded.kafka).view(source).bounds.items()}
    at, engine, folder = loaded.parts()
    batch = plan(at.conn, at.broker, folder, Caller("test"), datetime.now(UTC)).batch_id
    produce(source, [("late", b'{"id":"late","n":1}')], partition=1)
    tries = [stage(at, engine, folder, batch, Caller("test", take_over=True)) for _ in range(2)]

    whole = "; ".join(f"{p}:0-{end}" for p, end in sorted(ends.items()))
    for each in tries:
        assert loaded.ask(f"select distinct read from lockstep_staging.{each.table} where _reason is null") == [
            (whole,)
        ]
    loaded.run()
    loaded.run()
    late = f"1:{ends[1]}-{ends[1] + 1}"
    assert loaded.ask(f"select distinct read from {loaded.name} where id = 'late'") == [(late,)]


def test_a_resume_per_partition_is_given_the_ranges_that_are_committed_too(pipeline, topic, produce):
    name = topic(partitions=3)
    for partition, size in enumerate((3, 5, 4)):
        produce(name, [("k", json.dumps({"id": f"r{i}", "n": i})) for i in range(size)], partition=partition)
    loaded = pipeline(name, ID, DDL, transform=START + RANGED.replace('"read"', '"id"'), guarantee="PerPartition()")
    produce(name, [("bad", "no JSON")] * 101, partition=1)
    with pytest.raises(BadData, match="101 of 106 records were rejected"):
        loaded.run()
    file = loaded.parts()[2].path / "__init__.py"
    file.write_text(file.read_text().replace("guarantee=", "max_reject_share=1.0, guarantee="))

    loaded.run()

    assert loaded.ask("select count(distinct token) from lockstep.commit") == [(2,)], "one was committed by the resume"
    assert loaded.ask(f"select id, count(*) from {loaded.name} group by 1") == [("0:0-3; 1:0-106; 2:0-4", 12)]


def test_a_plan_gives_away_what_it_hangs_on():
    empty = session().createDataFrame([], "_stream int, _offset bigint, id string, n int")
    chance = F.udf(lambda n: n, "int").asNondeterministic()
    for column, name in [
        (F.current_timestamp(), "current_timestamp"),
        (F.expr("now()"), "now"),
        (F.current_date(), "current_date"),
        (F.rand() + 1, "rand"),
        (F.randn(7), "randn"),
        (F.expr("uuid()"), "uuid"),
        (F.monotonically_increasing_id(), "monotonically_increasing_id"),
        (F.spark_partition_id(), "spark_partition_id"),
        (F.input_file_name(), "input_file_name"),
        (F.shuffle(F.array("n", "n")), "shuffle"),
        (chance("n"), "<lambda>"),
    ]:
        assert unrepeatable(empty.withColumn("x", column)) == (name,)
    assert unrepeatable(empty.sample(0.5, 3)) == ("sample",)
    assert unrepeatable(empty.withColumn("x", F.hash("id")).groupBy("x").count()) == ()
    assert shuffles(empty.where("n > 1").withColumn("x", F.hash("id"))) is None
    assert "Exchange" in shuffles(empty.groupBy("id").count())
    assert "Exchange" in shuffles(empty.repartition(3))
    assert shuffles(empty.join(F.broadcast(empty.select("id")), "id")) is None
    assert (cuts(empty.limit(3)), cuts(empty.offset(3)), cuts(empty.orderBy("n"))) == ("limit", "offset", None)
    assert cuts(empty.join(empty.select("id").limit(3), "id")) == "limit"
    assert cuts(empty.join(session().range(5).withColumnRenamed("id", "id2").limit(3), F.expr("n = id2"))) is None
    assert reads(empty) == 0
