"""Tests commits per partition on Spark: each task commits whole ranges, with and without a transform.

A transform that would shuffle is refused.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.core.errors import BadData, BadDefinition
from lockstep.engine.spark import engine as spark

COLUMNS = "id string, n int, amount decimal(12,2), at timestamp"
DDL = "id text, n int, amount numeric(12,2), at timestamptz"
PIECE = "spark.sql.execution.arrow.maxRecordsPerBatch"
PER_PARTITION: dict[str, Any] = {"guarantee": "PerPartition()"}


def record(i: int) -> tuple[str, str]:
    value = {"id": f'r"{i},\\', "n": i, "amount": "12.30", "at": "2026-05-01T12:00:00.25Z"}
    return f"k{i}", json.dumps(value)


def transform(body: str) -> str:
    return f"from pyspark.sql import functions as F\n\n\ndef transform(records):\n    return {body}\n"


def ranges(made) -> list[tuple]:
    """Returns the records of each range that delivered anything."""
    return made.ask(
        "select u.delivered, u.written, u.filtered, u.rejected from lockstep.commit"
        " join lockstep.result u using (batch_id, token, stream_id) where u.delivered > 0 order by stream_id"
    )


def test_every_record_is_a_row_once_rejects_come_along_and_quiet_partitions_are_closed(pipeline, topic, produce):
    name = topic(partitions=4)
    for partition in range(3):
        produce(name, [*map(record, range(100)), ("bad", "no JSON")], partition=partition, end="commit")
        produce(name, map(record, range(5)), partition=partition, end="abort")
    produce(name, map(record, range(5)), partition=3, end="abort")
    made = pipeline(name, COLUMNS, DDL, **PER_PARTITION)

    assert len(made.run().ranges) == 4

    assert ranges(made) == [(101, 100, 0, 1)] * 3
    assert made.ask(f"select count(*), sum(amount), min(at)::text from public.{made.name}") == [
        (300, 3690, "2026-05-01 12:00:00.25+00")
    ]
    assert made.ask(f"select distinct id from public.{made.name} where n = 7") == [('r"7,\\',)]
    assert made.ask("select count(*), min(convert_from(value, 'UTF8')) from lockstep.reject") == [(3, "no JSON")]
    assert made.ask("select state from lockstep.batch") == [("committed",)]
    assert made.violations() == []


def test_a_transform_may_filter_multiply_and_reorder_what_it_is_given(pipeline, topic, produce):
    name = topic(partitions=3)
    produce(name, [*map(record, range(100)), ("bad", "no JSON")], partition=0)
    produce(name, map(record, range(1_000, 1_010)), partition=1)
    body = """(
        records.where("n < 1000")
        .select("_stream", "_offset", "id", "n", "amount", "at", F.posexplode(F.expr("sequence(0, n % 2)")))
        .withColumnRenamed("pos", "_ordinal").drop("col").sortWithinPartitions(F.desc("n")))"""
    made = pipeline(name, COLUMNS, DDL, transform=transform(body), **PER_PARTITION)

    made.run()

    assert ranges(made) == [(101, 100, 0, 1), (10, 0, 10, 0)]
    (counts,) = made.ask(f"select count(*), count(distinct _offset), max(_ordinal) from public.{made.name}")
    assert counts == (150, 100, 1)
    assert made.ask("select state from lockstep.batch") == [("committed",)]


SHUFFLES = {
    "a grouping": 'records.groupBy("_stream", "_offset").agg(F.max("id").alias("id"), F.max("n").alias("n"))',
    "a sort": 'records.orderBy("n")',
    "a repartition": "records.repartition(3)",
    "a window": 'records.withColumn("n", F.expr("row_number() over (partition by id order by n)"))',
    "a limit": "records.limit(5)",
}


def test_what_shuffles_is_refused_by_check_and_before_anything_is_read(pipeline, topic):
    name = topic(partitions=1)
    for body in SHUFFLES.values():
        made = pipeline(name, COLUMNS, DDL, transform=transform(body), **PER_PARTITION)
        with pytest.raises(BadDefinition, match=r"shuffles .*PerPartition commits in the task that reads"):
            made.parts()[1].columns()


def test_a_shuffle_that_the_check_is_not_shown_is_refused_in_the_plan_that_would_run(
    pipeline, topic, produce, monkeypatch
):
    name = topic(partitions=2)
    produce(name, map(record, range(10)))
    made = pipeline(name, COLUMNS, DDL, transform=transform(SHUFFLES["a grouping"]), **PER_PARTITION)
    monkeypatch.setattr("lockstep.engine.spark.engine.require_no_shuffle", lambda *_: None)

    with pytest.raises(BadDefinition, match=r"transform.py shuffles"):
        made.run()

    assert made.ask("select count(*) from lockstep.commit") == [(0,)]


def test_rows_that_leave_the_task_that_read_them_are_refused_and_nothing_passes_for_empty(pipeline, topic, produce):
    name = topic(partitions=2)
    produce(name, map(record, range(10)))
    nobody = "records.sparkSession.range(1).withColumnRenamed('id', 'n')"
    body = f"F.broadcast(records).join({nobody}, 'n', 'right').where('_stream is not null and n = 99')"
    made = pipeline(name, COLUMNS, DDL, transform=transform(body), **PER_PARTITION)

    with pytest.raises(BadData, match="0 of 2 ranges were read by the task that is to commit them"):
        made.run()

    assert made.ask("select count(*) from lockstep.commit") == [(0,)]


def test_a_small_table_may_be_joined_where_it_is_broadcast(pipeline, topic, produce):
    name = topic(partitions=2)
    produce(name, map(record, range(20)))
    body = """records.join(F.broadcast(records.sparkSession.range(10).withColumnRenamed("id", "n")), "n")"""
    made = pipeline(name, COLUMNS, DDL, transform=transform(body), **PER_PARTITION)

    made.run()

    assert made.ask(f"select count(*) from public.{made.name}") == [(10,)]
    assert sum(filtered for _, _, filtered, _ in ranges(made)) == 10


FAILS = "records.withColumn('n', F.expr('if(n = 35, raise_error(\"no\"), n)'))"


def in_pieces(raw):
    """Yields ten records at a time, and fails at the fourth piece."""
    for batch in raw:
        for begin in range(0, batch.num_rows, 10):
            if begin == 30:
                raise ValueError("no")
            yield batch.slice(begin, 10)


@pytest.mark.parametrize("way", ["straight", "transform"])
def test_a_task_that_fails_in_the_middle_of_a_range_commits_nothing_of_it(pipeline, topic, produce, monkeypatch, way):
    name = topic(partitions=1)
    produce(name, map(record, range(60)))
    made = pipeline(name, COLUMNS, DDL, transform=transform(FAILS) if way == "transform" else None, **PER_PARTITION)
    spark.session().conf.set(PIECE, 10)  # Spark closes the stream behind a whole Arrow batch, as if that had been all
    if way == "straight":
        reader_of = spark.reader_of
        failing = lambda *given: SimpleNamespace(records=lambda ranges: in_pieces(reader_of(*given).records(ranges)))  # noqa: E731
        monkeypatch.setattr(spark, "reader_of", failing)

    with pytest.raises(BadData):
        made.run()

    spark.session().conf.unset(PIECE)
    assert made.ask("select count(*) from lockstep.commit") == [(0,)]
    assert made.ask(f"select count(*) from public.{made.name}") == [(0,)]


def test_a_range_that_is_refused_stays_while_the_others_are_committed_and_alone_is_read_again(pipeline, topic, produce):
    name = topic(partitions=3)
    for partition in range(3):
        produce(name, map(record, range(10)), partition=partition)
    produce(name, [("bad", "no JSON")] * 101, partition=1)
    made = pipeline(name, COLUMNS, DDL, **PER_PARTITION)

    with pytest.raises(BadData, match="101 of 111 records were rejected"):
        made.run()

    before = made.ask("select stream_id, token from lockstep.commit order by 1")
    assert len(before) == 2
    assert made.ask("select split_part(error, E'\n', 2) from lockstep.attempt") == [
        (f"101 records, first {name}-1 offset 10: not a JSON object",)
    ]
    (folder,) = made.parts()[2:]
    file = folder.path / "__init__.py"
    file.write_text(file.read_text().replace("guarantee=", "max_reject_share=1.0, guarantee="))
    made.run()
    assert set(before) < set(made.ask("select stream_id, token from lockstep.commit"))
    assert ranges(made) == [(10, 10, 0, 0), (111, 10, 0, 101), (10, 10, 0, 0)]
    assert made.violations() == []


def test_upsert_takes_the_newest_of_each_key_range_by_range(pipeline, topic, produce):
    name = topic(partitions=3)
    changes = [(f"k{i % 20}", json.dumps({"id": f"k{i % 20}", "n": i})) for i in range(100)]
    produce(name, [*changes, ("k3", None)])
    made = pipeline(name, "id string, n int", "id text primary key, n int", target="Upsert", key="id", **PER_PARTITION)

    made.run()

    assert made.ask(f"select count(*), min(n), max(n) from public.{made.name}") == [(19, 80, 99)]
    assert made.violations("id") == []
