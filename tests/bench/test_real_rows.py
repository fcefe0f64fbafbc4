"""Tests that a lost, doubled or changed row of the second workload is noticed, and that plain Python makes none."""

from __future__ import annotations

import io
import secrets
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from peers.contender import APPEND, KEYED_LIMIT, Place, Task
from peers.limits import BareCopy
from peers.python_copy import PythonCopy
from peers.real.events import CLEAN, DDL, PARTITIONS, SCHEMA, events, expect, line
from peers.real.workloads import BAD_RECORDS, CLEAN_RECORDS, ESCAPED_PAIRS, NESTED_TEXT, REST, TRANSFORMED
from peers.records import Comparison, compare, count, make_table, produce, rejects
from peers.workload import names_of

RECORDS = 4_000
CHANGED = {
    "text": "coalesce({0}, '') || 'x'",
    "boolean": "{0} is not true",
    "timestamptz": "coalesce({0}, '2026-01-01Z') + interval '1 microsecond'",
}


@pytest.fixture
def place(database, tmp_path):
    found = Place(tmp_path, "nowhere", database, database, 0, Path())
    expect(found, "t", RECORDS, PARTITIONS)
    return found


def said(place, statement):
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(statement)
        return cur.rowcount


def copied(place, workload=CLEAN_RECORDS):
    """Returns the task of a table that holds what was produced."""
    task = Task(
        "t", "written", RECORDS, PARTITIONS, KEYED_LIMIT, (("format", "binary"), ("connections", "2")), workload
    )
    make_table(place, task)
    session = BareCopy()
    session.start(place)
    session.prepare(task)
    session.run(task)
    return task


def test_a_record_and_its_line_say_the_same(place):
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(f"create temporary table found (number int, {DDL})")
        lines = ["\t".join((line(seq).split("\t")[0], *line(seq)[:-1].split("\t")[4:-1])) for seq in range(300)]
        cur.copy_expert("copy found from stdin", io.StringIO("\n".join([*lines, ""])))
        cur.execute(
            "select count(*) from found join unnest(%s::int[], %s::jsonb[]) as e (number, value) using (number), "
            "jsonb_populate_record(null::found, value || jsonb_build_object('number', number)) as r where r = found.*",
            (list(range(300)), [value for _, value, _ in events(CLEAN, 300, PARTITIONS)]),
        )
        assert cur.fetchone() == (300,)


def test_what_was_produced_is_neither_lost_nor_doubled(place):
    task = copied(place)
    assert compare(place, task) == count(place, task) == Comparison(0, 0)


def test_a_lost_and_a_doubled_row_are_noticed(place):
    task = copied(place)
    assert said(place, "delete from written where _offset in (3, 5) and _stream = 0") == 2
    names = ", ".join(names_of(SCHEMA))
    again = f"insert into written ({names}, _stream, _offset, _ordinal) select {names}, _stream, _offset, _ordinal + 1"
    assert said(place, f"{again} from written where _stream = 1 and _offset < 3") == 3
    assert compare(place, task) == Comparison(2, 3)


@pytest.mark.parametrize("name", [*names_of(SCHEMA), "_offset"])
def test_a_changed_value_is_noticed_in_each_column(place, name):
    task = copied(place)
    kind = {column.split()[0]: column.split()[1] for column in DDL.replace("\n", " ").split(", ")}.get(name, "bigint")
    change = CHANGED.get(kind, "coalesce({0}, " + ("'2026-01-01'" if kind == "date" else "0") + ") + 1").format(name)
    where = "_stream = 0 and _offset = (select max(_offset) from written where _stream = 0)"
    assert said(place, f"update written set {name} = {change} where {where}") == 1
    assert compare(place, task) == Comparison(1, 1)


def test_a_null_that_becomes_an_empty_text_is_noticed(place):
    task = copied(place)
    changed = said(place, "update written set note = '' where note is null")
    assert changed > RECORDS // 5
    assert compare(place, task) == Comparison(changed, changed)


def test_bad_records_are_expected_nowhere(place):
    task = copied(place, BAD_RECORDS)
    assert compare(place, task) == Comparison(0, 0)
    assert said(place, "select from written") == RECORDS - BAD_RECORDS.rejects(RECORDS)
    assert rejects(place, task, by_lockstep=False) == rejects(place, task, by_lockstep=True) == 0


@pytest.mark.parametrize("workload", [*TRANSFORMED.values(), NESTED_TEXT, REST], ids=lambda each: each.name)
def test_each_table_of_a_transform_is_compared(place, workload):
    task = Task("t", "written", RECORDS, PARTITIONS, APPEND, (), workload)
    make_table(place, task)
    for output in workload.outputs:
        names, some = ", ".join(output.names), output.expected.format(topic="t")
        key, values = "_stream, _ordinal", "0, row_number() over ()"
        if "_offset" not in output.names:
            key, values = f"{key}, _offset", f"{values}, 0"
        insert = f"insert into written{output.suffix} ({names}, {key}) select {names}, {values} from ({some}) as e"
        assert said(place, insert)
    assert compare(place, task) == Comparison(0, 0)
    for output in workload.outputs:
        odd = f"{output.by} = (select min({output.by}) from written{output.suffix})"
        assert said(place, f"delete from written{output.suffix} where {odd}") == 1
    assert compare(place, task) == Comparison(len(workload.outputs), 0)


@pytest.mark.parametrize("workload", [CLEAN_RECORDS, BAD_RECORDS, ESCAPED_PAIRS], ids=lambda each: each.name)
def test_plain_python_writes_rows_and_rejects_of_each_kind(database, kafka, tmp_path, workload):
    place, topic = Place(tmp_path, kafka, database, database, 0, Path()), f"real-{secrets.token_hex(4)}"
    produce(place, workload, topic, RECORDS, PARTITIONS)
    task = Task(topic, "written", RECORDS, PARTITIONS, APPEND, (("rows", "700"),), workload)
    make_table(place, task)
    peer = PythonCopy(2)
    peer.start(place)
    try:
        peer.prepare(task)
        peer.run(task)
        peer.run(task)
    finally:
        peer.end()
    assert compare(place, task) == Comparison(0, 0)
    assert rejects(place, task, by_lockstep=False) == workload.rejects(RECORDS)
