"""What a transform may be: joins, aggregates, records used twice, the run's own time; and what its plan gives away."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from lockstep.adapters.spark_session import session
from lockstep.core.decisions import Caller
from lockstep.core.errors import BadData
from lockstep.staging.plans import cuts, reads, shuffles, unrepeatable
from lockstep.steps.plan import plan
from lockstep.steps.stage import stage

ID, DDL = "id string, n int", "id text, n int"
START = "from pyspark.sql import functions as F\n\n\n"
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


@pytest.fixture
def source(topic, produce):
    name = topic(partitions=3)
    produce(name, [*[(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(90)], ("bad", b"{")])
    return name


def totals(report) -> list[int]:
    return [sum(getattr(r, name) for r in report.ranges) for name in ("delivered", "written", "filtered", "rejected")]


def test_a_join_with_a_static_table_counts_what_finds_no_partner_as_filtered(pipeline, source, tmp_path):
    table = tmp_path / "names.json"
    table.write_text("\n".join(json.dumps({"n": n, "name": f"name {n}"}) for n in range(0, 90, 9)))
    loaded = pipeline(source, ID, DDL, transform=START + JOIN.format(path=str(table)))
    assert totals(loaded.run()) == [91, 10, 80, 1]
    assert loaded.ask(f"select id from {loaded.name} where n = 81") == [("name 81",)]


def test_an_aggregate_answers_for_one_record_of_each_group(pipeline, source):
    loaded = pipeline(source, ID, DDL, transform=START + NEWEST_OF_TEN)
    assert totals(loaded.run()) == [91, 10, 80, 1]
    assert loaded.ask(f"select count(*), sum(n), min(n) from {loaded.name}") == [(10, 90, 9)]


def test_records_that_a_transform_uses_several_times_are_read_once_and_counted_once(pipeline, source):
    loaded = pipeline(source, ID, DDL, transform=START + TWICE)
    assert totals(loaded.run()) == [91, 90, 0, 1]
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


def test_a_plan_gives_away_what_it_hangs_on():
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as every reader of PySpark knows it

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
    assert cuts(empty.join(empty.select("id").limit(3), "id")) is not None
    assert reads(empty) == 0
