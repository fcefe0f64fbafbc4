"""Tests that a key that may be null, or has several texts, is refused before anything is read.

A null in a key is refused by its offset.
"""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2
import pytest

from lockstep.core.errors import BadData, Refusal
from lockstep.ledger.migrate import migrate_target
from support.scenes.here import Here

COORDINATES = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
SHAPES = {
    "unique": "id text unique, n int",
    "nulls not distinct": "id text unique nulls not distinct, n int",
    "of two columns": "id text not null, n int, unique (id, n)",
}
CI = "create collation public.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);"
LOOSE = {
    "a collation": ("id text collate public.ci primary key, n int not null", ""),
    "a type": ("id public.citext primary key, n int not null", ""),
    "an index": ("id text not null, n int not null", "create unique index on public.drill (id collate public.ci);"),
}


@pytest.fixture
def keyed(drill):
    """Yields `keyed(columns, key)`, which gives the drill an upserted table with these columns."""
    opened = []

    def make(columns: str, key: str = '"id",', more: str = "") -> Here:
        before, more = (CI, more) if "public.ci" in columns + more else ("", more)
        (drill.home / "drill" / "target.sql").write_text(
            f"{before}create table public.drill ({columns}, {COORDINATES});{more}"
        )
        with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute("set role lockstep_owner; drop table public.drill")
        here = Here(drill)
        opened.append(here)
        here.rewrite('target=Append("public.drill")', f'target=Upsert("public.drill", key=({key}))')
        here.rewrite("import Append, Json", "import Json, Upsert")
        migrate_target(here.at.conn, here.folder)
        return here

    yield make
    for here in opened:
        here.at.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_key_column_that_may_be_null_is_refused_before_anything_is_read(keyed, drill, shape):
    two = shape == "of two columns"
    here = keyed(SHAPES[shape], '"id", "n"' if two else '"id",')
    column = "n" if two else "id"

    with pytest.raises(Refusal, match=f"key column {column} of target public.drill may be null") as refused:
        here.run()

    assert f"alter table public.drill alter column {column} set not null" in refused.value.next_command
    assert drill.ask("select count(*) from lockstep.attempt") == [(0,)]

    with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(f"set role lockstep_owner; {refused.value.next_command.partition(',')[0]}")
    here.drain()
    assert drill.ask("select count(*), count(distinct id) from public.drill") == [(150, 150)]


def test_a_null_in_a_key_is_refused_by_its_offset_and_no_row_is_written(keyed, drill, produce):
    here = keyed("id text not null, n int not null, primary key (id, n)", '"id", "n"')
    here.drain()
    produce(drill.topic, [(b"k", json.dumps({"id": "later"}))], partition=0)
    ((offset,),) = drill.ask("select position from lockstep.stream where partition = 0")

    with pytest.raises(BadData, match=rf"the key \(id, n\) of the record at {drill.topic}-0 offset {offset} is null"):
        here.run()

    assert drill.ask("select count(*) from public.drill where id = 'later'") == [(0,)]


@pytest.mark.parametrize("shape", LOOSE)
def test_a_key_column_that_takes_several_texts_as_one_is_refused_before_anything_is_read(keyed, drill, postgres, shape):
    ((database,),) = drill.ask("select current_database()")
    with closing(psycopg2.connect(postgres, dbname=database)) as conn, conn, conn.cursor() as cur:
        cur.execute("create extension citext schema public")
    here = keyed(LOOSE[shape][0], more=LOOSE[shape][1])

    with pytest.raises(Refusal, match=r"key column id of target public\.drill takes different texts as one") as refused:
        here.run()

    assert drill.ask("select count(*) from lockstep.attempt") == [(0,)]
    with closing(psycopg2.connect(drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(f"set role lockstep_owner; {refused.value.next_command.partition(',')[0]}")
        if shape == "an index":
            cur.execute("create unique index on public.drill (id)")
    here.drain()
    assert drill.ask("select count(*), count(distinct id) from public.drill") == [(150, 150)]


def test_a_key_of_totals_that_takes_several_texts_as_one_is_refused(keyed):
    here = keyed("id text collate public.ci primary key, records bigint not null")
    here.rewrite(
        'Upsert("public.drill", key=("id",))', 'Accumulate("public.drill", key=("id",), totals=(Count("records"),))'
    )
    here.rewrite("import Json, Upsert", "import Accumulate, Count, Json")

    with pytest.raises(Refusal, match=r"key column id of target public\.drill takes different texts as one"):
        here.run()
