"""Tests what is kept of Spark's own work at an attempt: stages, tasks, memory. It never decides about the batch."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.core.errors import BadData
from lockstep.core.kafka_options import KafkaOptions
from lockstep.engine.chosen import ChosenEngine, ProcessReader
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.engine.spark import figures
from lockstep.engine.spark.figures import Meter
from lockstep.ledger.views import reading
from support.engines import IN_PROCESS

ID, DDL = "id string, n int", "id text, n int"
PART_OF_ALL = """
from pyspark.sql import functions as F
def transform(records):
    counts = records.repartition(3).groupBy("id").agg(F.count("*").cast("int").alias("n"))
    return records.drop("n").join(counts, "id")
"""
BOOM = """
from pyspark.sql import functions as F
@F.udf("int")
def boom(n):
    raise ValueError("no such customer")
def transform(r):
    return r.withColumn("n", boom("n"))
"""


@pytest.fixture
def source(topic, produce):
    name = topic(partitions=3)
    produce(name, [(f"k{i}", json.dumps({"id": f"r{i % 5}", "n": i})) for i in range(60)])
    return name


def attempt(loaded) -> dict:
    """Returns the only attempt of batch 1, as `lockstep batch 1 --json` does."""
    with closing(connect(loaded.dsn)) as conn, transaction(conn, READER) as cur:
        (found,) = reading.read_batch(cur, 1)["attempts"]
    return found


def test_the_stages_of_an_attempt_are_kept_with_their_tasks_and_times(pipeline, source):
    loaded = pipeline(source, ID, DDL, transform=PART_OF_ALL)
    loaded.run()

    its = attempt(loaded)
    spark, stages = its["spark"], its["spark"]["stages"]
    assert loaded.ask(f"select distinct n, count(*) from public.{loaded.name} group by 1") == [(12, 60)]
    assert (spark["place"], spark["stages_run"]) == ("local", len(stages))
    assert spark["heap_limit_bytes"] == 2 * 1024**3
    assert 0 < spark["heap_peak_bytes"] <= spark["heap_limit_bytes"]
    assert 0 <= spark["gc_seconds"] < 60
    assert {(stage["state"], stage["failed_tasks"]) for stage in stages} == {("complete", 0)}
    assert min(stage["tasks"] for stage in stages) >= 1
    assert max(stage["shuffle_bytes"] for stage in stages) > 0, "the grouping shuffles"
    assert max(stage["peak_memory_bytes"] for stage in stages) > 0, "the grouping takes memory"
    for stage in stages:
        assert 0 < stage["median_seconds"] <= stage["longest_seconds"] <= stage["seconds"] + 0.5
        assert its["opened_at"] <= stage["began_at"] <= its["staged_at"]
        assert "/" not in stage["name"], "no folder of this machine"
    assert loaded.violations() == []


def test_a_second_batch_of_the_same_process_tells_its_own_stages_alone(pipeline, source, produce):
    loaded = pipeline(source, ID, DDL)
    loaded.run()
    produce(source, [("k", b'{"id":"a","n":1}')])
    loaded.run()

    rows = loaded.ask("select batch_id, stage, tasks from lockstep.spark_stage order by 1, 2")
    assert [(batch, tasks) for batch, _, tasks in rows] == [(1, 1), (2, 1)], "each is small enough for one task"
    assert rows[0][1] < rows[1][1]


FAILING_ONCE = """
from pathlib import Path
from pyspark.sql import functions as F
@F.udf("int")
def once(n):
    if n == 59 and not Path({flag!r}).exists():
        Path({flag!r}).touch()
        raise OSError("the first try ends here")
    return n
def transform(records):
    return records.withColumn("n", once("n"))
"""
SELF_JOIN = """
def transform(records):
    return records.join(records.select("id").distinct(), "id").where("n < 10")
"""


def counted(loaded) -> list[int | None]:
    return [records for (records,) in loaded.ask("select records from lockstep.spark_run order by batch_id, token")]


@pytest.mark.parametrize("more", [{}, {"guarantee": "PerPartition()"}], ids=["per batch", "per partition"])
def test_spark_counts_each_record_that_tasks_write_themselves_also_rejects(pipeline, source, produce, more):
    produce(source, [("bad", b"{")] * 3, partition=0)
    loaded = pipeline(source, ID, DDL, **more)
    loaded.run()
    produce(source, [("k", b'{"id":"a","n":1}')] * 7)
    loaded.run()

    delivered = loaded.ask("select sum(delivered)::int from lockstep.result group by batch_id order by batch_id")
    assert counted(loaded) == [63, 7] == [records for (records,) in delivered]


@pytest.mark.parametrize("transform", [PART_OF_ALL, SELF_JOIN], ids=["grouped", "read twice"])
def test_spark_counts_the_records_that_its_scan_has_given_to_a_transform_once(pipeline, source, produce, transform):
    produce(source, [("bad", b"{")] * 3, partition=0)
    loaded = pipeline(source, ID, DDL, transform=transform)
    loaded.run()

    assert loaded.ask("select sum(delivered)::int, sum(rejected)::int from lockstep.result") == [(63, 3)]
    assert counted(loaded) == [60], "rejects stay in the task that reads them"


def test_spark_counts_what_a_transform_per_partition_was_given(pipeline, source, produce):
    produce(source, [("bad", b"{")] * 3, partition=0)
    loaded = pipeline(
        source, ID, DDL, transform="def transform(r):\n    return r.where('n < 10')\n", guarantee="PerPartition()"
    )
    loaded.run()

    assert counted(loaded) == [60]


def test_a_batch_without_a_record_is_counted_as_none(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, [("k", b'{"id":"a","n":1}')] * 5, end="abort")
    loaded = pipeline(name, ID, DDL)
    loaded.run()

    assert counted(loaded) == [0]


def test_a_task_that_is_tried_again_is_counted_once(pipeline, source, tmp_path):
    loaded = pipeline(source, ID, DDL, transform=FAILING_ONCE.format(flag=str(tmp_path / "failed")))
    loaded.run()

    assert sum(stage["failed_tasks"] for stage in attempt(loaded)["spark"]["stages"]) == 1
    assert counted(loaded) == [60]


def test_names_that_spark_does_not_have_leave_the_count_out_and_keep_the_rest(pipeline, source, monkeypatch):
    loaded = pipeline(source, ID, DDL)
    monkeypatch.setattr(figures, "ROWS_METRIC", "rows that nobody has counted")
    loaded.run()

    assert counted(loaded) == [None]
    assert attempt(loaded)["spark"]["stages_run"] == 1


def test_an_attempt_that_fails_keeps_its_stages_and_no_value_of_a_record(pipeline, source):
    loaded = pipeline(source, ID, DDL, transform=BOOM)
    with pytest.raises(BadData, match="no such customer"):
        loaded.run()

    (stage,) = [each for each in attempt(loaded)["spark"]["stages"] if each["state"] == "failed"]  # 4.0 has one more
    assert attempt(loaded)["state"] == "failed"
    assert stage["failed_tasks"] >= 2, "a task may be tried twice here"
    assert (stage["median_seconds"], stage["longest_seconds"]) == (None, None)
    assert "customer" not in str(stage)


def test_ranges_that_tasks_commit_have_stages_too(pipeline, source):
    loaded = pipeline(source, ID, DDL, guarantee="PerPartition()")
    loaded.run()
    assert [stage["tasks"] for stage in attempt(loaded)["spark"]["stages"]] == [1]


def test_a_batch_that_the_driver_reads_asks_no_spark_and_keeps_nothing(pipeline, source):
    loaded = pipeline(source, ID, DDL)

    def no_spark():
        raise AssertionError("Spark was started")

    def driver():
        folder = loaded.parts()[2]
        return ProcessReader(
            folder, KafkaRanges(loaded.kafka, KafkaOptions(), folder.pipeline.record_limits), loaded.dsn
        )

    loaded.run(engine=ChosenEngine(loaded.parts()[2], driver, no_spark, IN_PROCESS))

    assert attempt(loaded)["state"] == "committed"
    assert attempt(loaded)["spark"] is None
    assert loaded.ask("select count(*) from lockstep.spark_run") == [(0,)]


def refuses_figures(loaded, _patch) -> None:
    with closing(psycopg2.connect(loaded.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner; revoke insert on lockstep.spark_stage from lockstep_stager")


def locks_them(loaded, _patch) -> None:
    conn = psycopg2.connect(loaded.dsn)
    _patch.callback = conn  # it holds its lock until the test ends
    with conn.cursor() as cur:
        cur.execute("set role lockstep_owner; lock lockstep.spark_run in access exclusive mode")


def tells_none(_loaded, patch) -> None:
    def away(_: Any) -> None:
        raise ConnectionError("the JVM is gone")

    patch.setattr(Meter, "figures", away)


def begins_none(_loaded, patch) -> None:
    def away(*_: Any) -> None:
        raise ConnectionError("the JVM is gone")

    patch.setattr(Meter, "__init__", away)


@pytest.mark.parametrize("trouble", [refuses_figures, locks_them, tells_none, begins_none])
def test_figures_that_cannot_be_kept_fail_no_batch(pipeline, source, monkeypatch, trouble):
    loaded = pipeline(source, ID, DDL)
    trouble(loaded, monkeypatch)
    loaded.run()
    if held := getattr(monkeypatch, "callback", None):
        held.close()

    assert loaded.ask("select state from lockstep.batch") == [("committed",)]
    assert loaded.ask("select count(*) from lockstep.spark_run") == [(0,)], "all of it or nothing"
    assert loaded.violations() == []
