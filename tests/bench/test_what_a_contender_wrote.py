"""Tests that lost and doubled rows are counted whole, against rows that other code has made."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from peers.contender import APPEND, UNKEYED, UPSERT, Place, Task
from peers.orders import expect, record
from peers.records import Comparison, compare, count, make_table

RECORDS, PARTITIONS = 1_000, 4
FILLED = "insert into {table} ({names}) select {names} from jsonb_populate_recordset(null::{table}, %s)"


@pytest.fixture
def place(database):
    found = Place(Path(), "nowhere", database, database, 0, Path())
    expect(found, "t", RECORDS, PARTITIONS)
    return found


def task(place, kind=APPEND) -> Task:
    made = Task("t", "written", RECORDS, PARTITIONS, kind)
    make_table(place, made)
    return made


def said(place, statement, *given: Any) -> None:
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(statement, given)


def written(place, made: Task, rows) -> None:
    if made.kind != UNKEYED:
        rows = [row | {"_stream": 0, "_offset": offset} for offset, row in enumerate(rows)]
    said(place, FILLED.format(table=made.table, names=", ".join(rows[0])), json.dumps(rows))


def values():
    return [json.loads(record(seq, PARTITIONS)[1]) for seq in range(RECORDS)]


@pytest.mark.parametrize("kind", [APPEND, UNKEYED])
def test_records_that_are_all_there_once_are_neither_lost_nor_doubled(place, kind):
    made = task(place, kind)
    written(place, made, values())
    assert compare(place, made) == Comparison(0, 0)


@pytest.mark.parametrize("kind", [APPEND, UNKEYED])
def test_a_row_that_is_missing_is_lost_and_one_that_is_there_twice_is_doubled(place, kind):
    made = task(place, kind)
    written(place, made, [*values()[1:], values()[7], values()[7]])
    assert compare(place, made) == Comparison(1, 2)


@pytest.mark.parametrize(
    ("rows", "found"),
    [(slice(1, None), Comparison(1, 0)), (slice(0, None), Comparison(0, 0)), (slice(3), Comparison(997, 0))],
)
def test_runs_that_do_not_count_are_compared_by_their_number_of_rows(place, rows, found):
    made = task(place)
    written(place, made, values()[rows])
    assert count(place, made) == found


def test_more_rows_than_expected_are_doubled(place):
    made = task(place, UPSERT)
    oldest = {value["id"]: value for value in values()}
    written(place, made, [*oldest.values(), values()[0] | {"id": "another"}])
    assert count(place, made) == Comparison(0, 1)


def test_a_row_with_another_value_is_lost_and_one_too_many(place):
    made = task(place)
    written(place, made, values())
    said(place, f"update {made.table} set amount = amount + 0.01 where seq = 5")
    assert compare(place, made) == Comparison(1, 1)


def test_an_upsert_is_held_against_the_newest_record_of_each_key(place):
    made = task(place, UPSERT)
    newest = {value["id"]: value for value in values()}
    assert len(newest) < RECORDS
    written(place, made, list(newest.values()))
    assert compare(place, made) == Comparison(0, 0)


def test_an_older_record_in_the_place_of_the_newest_is_lost(place):
    made = task(place, UPSERT)
    oldest = {value["id"]: value for value in reversed(values())}
    changed = len({value["id"] for value in values() if value != oldest[value["id"]]})
    written(place, made, list(oldest.values()))
    assert compare(place, made) == Comparison(changed, changed)


def test_a_topic_without_changes_has_as_many_keys_as_records(place):
    expect(place, "wide", 1_000, 512)
    made = replace(task(place, UPSERT), topic="wide")
    written(place, made, [json.loads(record(seq, 512)[1]) for seq in range(1_000)])
    assert compare(place, made) == Comparison(0, 0)
