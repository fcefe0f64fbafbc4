"""Tests that both readers copy rows into the table behind a view as they stage them: the same rows, counts and rejects."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.ledger.migrate import migrate_target
from lockstep.targets.table import parts
from spark.test_chosen_engine import COLUMNS, DDL, chosen, record, rows, spark_of

BAD = ("bad", "no JSON")
COUNTS = """select delivered, written, rejected, rows, bytes, digest_sum, digest_squares, first_offset, last_offset,
    min_timestamp, max_timestamp from lockstep.result order by batch_id, stream_id"""
LATE = ("late", json.dumps({"id": "late", "n": 1, "amount": "12.3", "at": "2026-05-01T12:00:00+01:00"}))


def behind_view(made):
    """Moves the pipeline's table behind a view."""
    file = load(made.name).path / "target.sql"
    file.write_text(file.read_text().replace(f"public.{made.name} (", f"public.{made.name}_rows (").replace(
        "create table", "create table if not exists"))  # fmt: skip
    with closing(psycopg2.connect(made.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(f"set role lockstep_targets; alter table public.{made.name} rename to {made.name}_rows")
    with closing(connect(made.dsn)) as conn:
        migrate_target(conn, load(made.name))
    return made


def test_driver_and_spark_write_once_what_they_would_stage(pipeline, topic, produce):
    name = topic(partitions=3)
    for partition in range(2):
        produce(name, [*map(record, range(200)), LATE], partition=partition, end="commit")
        produce(name, map(record, range(5)), partition=partition, end="abort")
    staged = pipeline(name, COLUMNS, DDL)
    by_driver, by_spark = behind_view(pipeline(name, COLUMNS, DDL)), behind_view(pipeline(name, COLUMNS, DDL))

    staged.run(chosen(staged, spark_of(staged)))
    by_driver.run(chosen(by_driver, spark_of(by_driver)))
    by_spark.run()

    assert len(rows(staged)) == 402
    assert rows(staged) == rows(by_driver) == rows(by_spark)
    told = staged.ask(COUNTS)
    assert told[:2] == told[2:4] == told[4:]
    assert len(told) == 6
    assert by_spark.ask("select count(*) from lockstep.landed") == [(4,)]
    assert staged.violations() == by_driver.violations() == by_spark.violations() == []

    produce(name, [*map(record, range(50)), BAD], partition=0)
    produce(name, map(record, range(50)), partition=2)
    for made in (staged, by_driver, by_spark):
        made.run(chosen(made, spark_of(made)))
    assert rows(staged) == rows(by_driver) == rows(by_spark)
    rejects = "select batch_id, convert_from(value, 'UTF8') from lockstep.reject order by batch_id"
    assert staged.ask(rejects) == [(4, "no JSON"), (5, "no JSON"), (6, "no JSON")]
    assert by_driver.ask("select count(*) from lockstep.hidden_batch") == [(0,)]
    assert staged.violations() == by_driver.violations() == by_spark.violations() == []


def by_batch(made):
    """Puts a table by batch in the place of the pipeline's."""
    file = load(made.name).path / "target.sql"
    text = file.read_text().strip().removesuffix(";")
    file.write_text(text.replace("_ordinal)", "_ordinal, _batch)") + " partition by list (_batch);")
    with closing(psycopg2.connect(made.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(f"set role lockstep_targets; drop table public.{made.name}")
    with closing(connect(made.dsn)) as conn:
        migrate_target(conn, load(made.name))
    return made


@pytest.mark.long
def test_driver_and_spark_make_parts_of_what_they_would_stage(pipeline, topic, produce, monkeypatch):
    name = topic(partitions=3)
    for partition in range(2):
        produce(name, [*map(record, range(200)), LATE], partition=partition, end="commit")
    produce(name, [BAD], partition=2)
    staged = pipeline(name, COLUMNS, DDL)
    by_driver, by_spark = by_batch(pipeline(name, COLUMNS, DDL)), by_batch(pipeline(name, COLUMNS, DDL))
    staged.run(chosen(staged, spark_of(staged)))
    monkeypatch.setattr(parts, "LEAST_OFFSETS", 0)
    by_driver.run(chosen(by_driver, spark_of(by_driver)))
    by_spark.run()

    assert len(rows(staged)) == 402
    assert rows(staged) == rows(by_driver) == rows(by_spark)
    told = staged.ask(COUNTS)
    assert told[:3] == told[3:6] == told[6:]
    assert by_spark.ask("select batch_id, count(*) from lockstep.part group by 1 order by 1") == [(2, 2), (3, 2)]
    assert staged.ask("select batch_id, convert_from(value, 'UTF8') from lockstep.reject order by 1") == [
        (batch, "no JSON") for batch in (1, 2, 3)
    ]
    assert staged.violations() == by_driver.violations() == by_spark.violations() == []


def test_a_range_is_cut_among_tasks_and_its_pieces_are_shown_together(pipeline, topic, produce, monkeypatch):
    """Records that only Spark decodes are in both pieces of the first batch, and in none of the second."""
    monkeypatch.setattr("lockstep.core.planning.tasks.OFFSETS_PER_TASK", 100)
    name = topic(partitions=1)
    produce(name, [*map(record, range(150)), LATE, BAD, *map(record, range(150, 300))])
    staged, cut = pipeline(name, COLUMNS, DDL), behind_view(pipeline(name, COLUMNS, DDL))
    pieces = "select lower(offsets), upper(offsets), rows from lockstep.landed order by 1"

    for made in (staged, cut):
        made.run()
    assert cut.ask(pieces) == [(0, 151, 151), (151, 302, 150)]

    produce(name, map(record, range(200)))
    for made in (staged, cut):
        made.run()
    assert cut.ask(pieces)[2:] == [(302, 402, 100), (402, 502, 100)]
    assert len(rows(staged)) == 501
    assert rows(staged) == rows(cut)
    one, other, two, another = staged.ask(COUNTS)
    assert (one, two) == (other, another)
    assert staged.violations() == cut.violations() == []


def test_a_range_with_most_of_the_records_is_cut_though_others_have_some(pipeline, topic, produce, monkeypatch):
    monkeypatch.setattr("lockstep.core.planning.tasks.OFFSETS_PER_TASK", 100)
    name = topic(partitions=3)
    produce(name, [*map(record, range(300)), BAD, *map(record, range(300, 399))], partition=0)
    produce(name, map(record, range(399, 419)), partition=1)
    produce(name, map(record, range(419, 439)), partition=2)
    staged, cut = pipeline(name, COLUMNS, DDL), behind_view(pipeline(name, COLUMNS, DDL))

    for made in (staged, cut):
        made.run()

    landed = (
        "select s.partition, lower(l.offsets), upper(l.offsets), l.rows from lockstep.landed l join lockstep.stream s"
    )
    assert cut.ask(f"{landed} using (stream_id) order by 1, 2") == [
        (0, 0, 220, 220),
        (0, 220, 400, 179),
        (1, 0, 20, 20),
        (2, 0, 20, 20),
    ]
    assert sorted(n for (n,) in cut.ask(f"select n from public.{cut.name}")) == list(range(439))
    assert rows(staged) == rows(cut)
    assert staged.ask(COUNTS)[:3] == staged.ask(COUNTS)[3:]
    assert staged.violations() == cut.violations() == []
