"""Tests that Lockstep and all peers fill the same table, and that the peers also write each record's origin."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg2
import pytest

from peers.contender import APPEND, UNKEYED, UPSERT, Place, Task
from peers.orders import NAMES, expect, record
from peers.ours import defined
from peers.plain import Plain
from peers.records import VIEWED, Comparison, compare, drop_table, make_table

RECORDS, PARTITIONS = 400, 4
COLUMNS = """select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute
    where attrelid = 'public.{}'::regclass and attnum > 0 order by attnum"""
KEYS = """select pg_get_constraintdef(c.oid) from pg_index as i left join pg_constraint as c on c.conindid = i.indexrelid
    where i.indrelid = 'public.{}'::regclass"""


@pytest.fixture
def place(database, tmp_path):
    return Place(tmp_path, "nowhere", database, database, 0, Path())


def task(table, kind=APPEND, topic="t"):
    return Task(topic, table, RECORDS, PARTITIONS, kind, (("guarantee", "PerBatch"),))


def asked(place, statement):
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn.cursor() as cur:
        cur.execute(statement)
        return cur.fetchall()


@pytest.mark.parametrize(("kind", "key"), [(APPEND, "_stream, _offset, _ordinal"), (UPSERT, "id")])
def test_the_peers_fill_the_columns_and_the_key_that_lockstep_fills(place, monkeypatch, kind, key):
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(place.home / "pipelines"))
    defined(place, task("ours", kind))
    make_table(place, task("theirs", kind))
    assert asked(place, COLUMNS.format("theirs")) == asked(place, COLUMNS.format("ours"))
    by_record = [(None,)] if kind == UPSERT else []  # the index that lineage and replays need, and no peer
    assert asked(place, KEYS.format("theirs")) == [(f"PRIMARY KEY ({key})",)]
    assert asked(place, KEYS.format("ours")) == asked(place, KEYS.format("theirs")) + by_record


def test_a_table_behind_a_view_has_the_same_columns_and_key_and_is_dropped_with_its_view(place, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(place.home / "pipelines"))
    viewed = replace(task("seen"), options=(("guarantee", "PerBatch"), VIEWED))
    defined(place, viewed)
    make_table(place, task("theirs"))
    assert asked(place, COLUMNS.format("seen_rows")) == asked(place, COLUMNS.format("theirs"))
    assert asked(place, KEYS.format("seen_rows")) == asked(place, KEYS.format("theirs"))
    assert asked(place, "select count(*) from public.seen") == [(0,)]
    drop_table(place, viewed)
    assert asked(place, "select relname from pg_class where relname like 'seen%'") == []


def test_a_bare_table_has_the_records_columns_and_no_index(place):
    make_table(place, task("bare", UNKEYED))
    assert tuple(name for name, *_ in asked(place, COLUMNS.format("bare"))) == NAMES
    assert asked(place, KEYS.format("bare")) == []


def test_a_peer_writes_partition_and_offset_of_each_record(place, kafka, topic, produce):
    name = topic(PARTITIONS)
    for part in range(PARTITIONS):
        produce(name, [record(seq, PARTITIONS) for seq in range(part, RECORDS, PARTITIONS)], partition=part)
    at, made = Place(place.home, kafka, place.dsn, place.dsn, 0, Path()), task(name.replace("-", "_"), topic=name)
    expect(at, name, RECORDS, PARTITIONS)
    make_table(at, made)
    peer = Plain()
    peer.start(at)
    peer.run(made)
    assert compare(at, made) == Comparison(0, 0)
    right = f"_stream = part and _offset = seq / {PARTITIONS} and _ordinal = 0 and _batch = 0"
    assert asked(at, f"select count(*) from public.{made.table} where {right}") == [(RECORDS,)]
