"""Tests that the peers that copy write each record once, unchanged, with its partition and offset."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import pytest

from peers.contender import APPEND, KEYED_LIMIT, UPSERT, Place, Task
from peers.limits import BareCopy
from peers.order_lines import COLUMNS, Order, line_of
from peers.orders import ORDERS, expect, record
from peers.python_copy import PROGRAM, PythonCopy
from peers.python_copy_process import Share, Transaction, copied
from peers.records import Comparison, compare, drop_table, make_table
from peers.settings import SHARED, settings, share

RECORDS, PARTITIONS = 4_000, 4
ORIGIN = f"_stream = part and _offset = seq / {PARTITIONS} and _ordinal = 0 and _batch = 0"
KEY = "select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'public.{}'::regclass and contype = 'p'"


def asked(dsn, statement):
    with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(statement)
        return cur.fetchall()


@pytest.fixture
def filled(database, kafka, topic, produce, tmp_path):
    """Returns `filled(records)`: a topic of so many records, with the expected contents of a table."""

    def make(records=RECORDS):
        name = topic(PARTITIONS)
        for part in range(PARTITIONS):
            produce(name, [record(seq, PARTITIONS) for seq in range(part, records, PARTITIONS)], partition=part)
        place = Place(tmp_path, kafka, database, database, 0, Path())
        expect(place, name, records, PARTITIONS)
        return place, name

    return make


@pytest.fixture
def peer():
    """Yields `peer(processes, place)`: the session, which ends after the test."""
    made = []

    def start(processes, place):
        made.append(PythonCopy(processes))
        made[-1].start(place)
        return made[-1]

    yield start
    for each in made:
        each.end()


@pytest.mark.parametrize("processes", [1, 2, 4, 8])
@pytest.mark.parametrize(("kind", "rows"), [(APPEND, "50000"), (UPSERT, "50000"), (UPSERT, "300")])
def test_python_writes_each_record_once_by_any_number_of_processes(filled, peer, processes, kind, rows):
    place, name = filled()
    task = Task(name, "copied", RECORDS, PARTITIONS, kind, (("rows", rows),))
    make_table(place, task)
    session = peer(processes, place)
    session.prepare(task)
    session.run(task)
    assert compare(place, task) == Comparison(0, 0)
    assert asked(place.dsn, f"select count(*) from copied where not ({ORIGIN})") == [(0,)]
    assert asked(place.dsn, "select partition, next_offset from copied_offsets order by 1") == [
        (partition, RECORDS // PARTITIONS) for partition in range(PARTITIONS)
    ]
    session.run(task)
    assert compare(place, task) == Comparison(0, 0), "a second run finds nothing new"
    drop_table(place, task)
    assert asked(place.dsn, "select count(*) from pg_tables where tablename ~ '^copied'") == [(0,)]


def test_python_that_is_killed_in_the_middle_goes_on_behind_its_last_commit(filled, peer):
    records = 80_000
    place, name = filled(records)
    task = Task(name, "killed", records, PARTITIONS, APPEND, (("rows", "5000"),))
    make_table(place, task)
    first, moved = peer(2, place), "select coalesce(sum(next_offset), 0)::int from killed_offsets"
    first.prepare(task)
    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(first.run, task)
        while not run.done() and asked(place.dsn, moved) == [(0,)]:
            time.sleep(0.002)
        for child in psutil.Process().children():
            if PROGRAM in child.cmdline():
                child.kill()
        with pytest.raises(ValueError, match="the process has ended"):
            run.result(20)
    assert 0 < asked(place.dsn, moved)[0][0] < records, "it was killed between two commits"
    peer(2, place).run(task)
    assert compare(place, task) == Comparison(0, 0)


def test_rows_are_rolled_back_with_an_offset_that_another_process_has_moved(filled):
    place, name = filled()
    task = Task(name, "moved", RECORDS, PARTITIONS, APPEND, (("rows", "50000"),))
    make_table(place, task)
    PythonCopy(1, place).prepare(task)
    asked(place.dsn, "update moved_offsets set next_offset = 7 where partition = 1 returning 1")
    part = Share(place.bootstrap, place.dsn, name, "moved", (1,), is_upsert=False, rows=100, lines=ORDERS.lines)
    with closing(psycopg2.connect(place.dsn)) as conn:
        cur = conn.cursor()
        copied(cur, "public.moved", COLUMNS, [line_of(order(id="a"), 1, 4)])
        with pytest.raises(ValueError, match="another process has moved 0"):
            Transaction(part, reached={1: 5}).bring(cur, {1: 0})
    assert asked(place.dsn, "select count(*) from moved") == [(0,)]


def order(**values: Any) -> Order:
    known = {"id": "", "seq": 0, "part": 0, "customer": "", "amount": 0.1, "quantity": 0, "paid": True}
    return Order(**known | {"placed_at": "2026-05-01T00:00:00+02:00"} | values)  # type: ignore[arg-type]


def test_a_line_is_read_back_as_the_record_has_it(database):
    place = Place(Path(), "", database, database, 0, Path())
    task = Task("t", "odd", 1, 1, APPEND)
    make_table(place, task)
    odd = "tab\there, line\nthere\r\nback\\slash \\N \\. é 漢 😀"
    large = {"seq": 2**62, "part": 3, "amount": 9999999999.99, "quantity": -4, "paid": False}
    orders = [order(id=odd, customer=odd, placed_at="2026-05-01T23:59:59Z", **large), order(customer="\\N")]
    with closing(psycopg2.connect(database)) as conn, conn, conn.cursor() as cur:
        copied(cur, "public.odd", COLUMNS, [line_of(each, 5, offset) for offset, each in enumerate(orders)])
    assert COLUMNS.count("_offset") == 1
    found = asked(
        database, "select id, seq, part, customer, amount, quantity, paid, placed_at from odd order by _offset"
    )
    assert [row[:-1] for row in found] == [
        (odd, 2**62, 3, odd, Decimal("9999999999.99"), -4, False),
        ("", 0, 0, "\\N", Decimal("0.10"), 0, True),
    ]
    assert [row[-1] for row in found] == [
        datetime(2026, 5, 1, 23, 59, 59, tzinfo=UTC),
        datetime(2026, 4, 30, 22, tzinfo=UTC),
    ]


@pytest.mark.parametrize("connections", ["2", "4", "3", "8"])
@pytest.mark.parametrize("form", ["text", "binary"])
def test_the_limit_of_the_same_table_fills_its_key_and_origin(database, connections, form):
    place = Place(Path(), "", database, database, 0, Path())
    expect(place, "t", RECORDS, PARTITIONS)
    task = Task("t", "limit", RECORDS, PARTITIONS, KEYED_LIMIT, (("format", form), ("connections", connections)))
    make_table(place, task)
    session = BareCopy()
    session.start(place)
    session.prepare(task)
    session.run(task)
    assert compare(place, task) == Comparison(0, 0)
    assert asked(database, KEY.format("limit")) == [("PRIMARY KEY (_stream, _offset, _ordinal)",)]
    assert asked(database, f"select count(*) from limit_ where not ({ORIGIN})".replace("limit_", "public.limit")) == [
        (0,)
    ]


def test_the_sessions_of_all_contenders_have_the_same_settings(database):
    place = Place(Path(), "", database, database, 0, Path())
    with pytest.raises(SystemExit, match="sessions differ: jit is off and on"):
        settings(place)
    share(database)
    found = settings(place)
    assert found | SHARED == found
    assert {"fsync": "on", "synchronous_commit": "on"}.items() <= found.items()


def test_a_setting_that_one_login_alone_has_is_refused_by_name(database):
    place = Place(Path(), "", database, f"{database}?options=-csynchronous_commit%3Doff", 0, Path())
    share(database)
    with pytest.raises(SystemExit, match="synchronous_commit is on and off"):
        settings(place)
