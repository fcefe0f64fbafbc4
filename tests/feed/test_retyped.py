"""Tests that the feed of a table follows a column whose type changes, value by value, and no change that gives other values."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace

import psycopg2
import pytest

from lockstep.core.errors import Refusal
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.changes.evolve import apply, propose
from lockstep.steps.proof.verify import verify
from support.oracles.folded import not_folded
from support.scenes.here import ME, Here

pytestmark = pytest.mark.long
TABLE = """create table public.drill (id text primary key, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null);"""
TOLD = "select number, change, id, n from lockstep_feed.public_drill_from(0, 1000) order by number, change desc"
PARTITION = "select s.partition from public.drill t join lockstep.stream s on s.stream_id = t._stream"
RETYPED = "alter table public.drill alter column n type {}"


@pytest.fixture
def here(drill):
    """Returns the drill, whose upserted table has a feed with 150 changes."""
    here = Here(drill)
    here.rewrite("import Append,", "import Feed, Upsert,")
    here.rewrite('target=Append("public.drill")', 'target=Upsert("public.drill", key=("id",), feed=Feed())')
    here.rewrite('Json("id string, n int")', 'Json("id string, n int", key="id")')
    (drill.home / "drill" / "target.sql").write_text(TABLE.replace("create table", "create table if not exists"))
    typed(here, "drop table public.drill")
    migrate_target(here.at.conn, here.folder)
    here.drain()
    yield here
    here.at.close()


def typed(here, statement: str) -> None:
    with closing(psycopg2.connect(here.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(statement)


def whole(here) -> None:
    checks = verify(here.at.conn, here.at.broker, here.folder, deep=True)
    assert [f"{check.name}: {check.detail}" for check in checks if not check.ok] == []
    assert not_folded(here.drill.ask, "public.drill") == []


def again(here, produce, n: int) -> None:
    """Takes in another record of the key r3."""
    ((partition,),) = here.drill.ask(f"{PARTITION} where t.id = 'r3'")
    produce(here.drill.topic, [("r3", json.dumps({"id": "r3", "n": n}))], partition)
    here.drain()


def test_a_feed_follows_a_column_that_migrate_widens(here, produce):
    before = here.drill.ask(TOLD)
    here.rewrite("n int", "n bigint")
    pipeline = here.folder.pipeline
    columns = [pipeline.columns]

    done = apply(here.at.conn, pipeline, columns, propose(here.at.conn, pipeline, columns).digest, ME)

    assert done.statements == ('alter table "public"."drill" alter column "n" type bigint',)
    assert here.drill.ask(TOLD) == before
    again(here, produce, 2**40)
    assert here.drill.ask(TOLD)[150:] == [(150, "before", "r3", 3), (150, "after", "r3", 2**40)]
    assert here.drill.ask("select pg_typeof(n)::text from lockstep_feed.public_drill_from(0, 1)") == [("bigint",)]
    whole(here)


def test_a_feed_follows_a_column_that_target_sql_retypes_as_it_stands(here, produce):
    migrate_target(here.at.conn, replace(here.folder, target_sql=RETYPED.format("numeric(12,2)")))
    again(here, produce, 4711)
    assert [(change, str(n)) for _, change, _, n in here.drill.ask(TOLD)[150:]] == [
        ("before", "3.00"), ("after", "4711.00"),
    ]  # fmt: skip
    whole(here)


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        ("bigint using n * 2", 'the row of ["r1"] is not what change'),
        ("boolean using n > 3", 'column "n" cannot be cast automatically to type boolean'),
    ],
    ids=["doubled", "no cast"],
)
def test_a_column_that_is_retyped_with_other_values_is_refused_until_they_are_back(here, produce, type_, words):
    with pytest.raises(Refusal) as refused:
        migrate_target(here.at.conn, replace(here.folder, target_sql=RETYPED.format(type_)))

    assert "drill: public.drill.n has another type than in its feed, and other values: " in refused.value.message
    assert words in refused.value.message
    assert refused.value.next_command == (
        "alter table public.drill alter column n type integer using ..., with the values of before, then lockstep migrate drill"
    )
    with pytest.raises(Refusal, match=r"its column n is not that of the feed|n is boolean and cannot hold int"):
        again(here, produce, 5)
    back = "integer using n / 2" if "bigint" in type_ else "integer using substr(id, 2)::int"
    typed(here, "set role lockstep_targets; " + RETYPED.format(back))
    migrate_target(here.at.conn, here.folder)
    here.run(retry=True)
    assert here.drill.ask(TOLD)[150:] == [(150, "before", "r3", 3), (150, "after", "r3", 5)]
    whole(here)
