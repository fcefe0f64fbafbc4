"""Tests that plain verify finds changed, added or missing values in an appended target, with batch and stream."""

from __future__ import annotations

import json
import re

import pytest

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.ledger.proof.verify_contents import contents_checks
from lockstep.ledger.staging.digests import hash_alike, is_hashable
from support.scenes.forged import APPENDED, COORDINATES

CHANGED = {
    "changed": "update public.drill set n = n + 1 where _offset = 3 and _batch = 1",
    "put in": "insert into public.drill select id, n, _stream, _offset, 1, _batch from public.drill where _offset = 3",
    "missing": "delete from public.drill where _offset = 3",
    "emptied": "update public.drill set id = null where _offset = 3",
    "changing places": """update public.drill t set n = o.n from public.drill o
        where t._stream = o._stream and (t._offset, o._offset) in ((3, 4), (4, 3))""",
}
WRONG = r"^\d are wrong: (t-.*-\d: batch 1: the \d+ rows in public.drill are not those that it committed(; |$)){2,3}"
TYPES = (
    "a string, b boolean, c smallint, d int, e bigint, f float, g double, h date, i timestamp, j binary, "
    "k decimal(12,2), l decimal(38,10), m string, o string, p string, q decimal(5,2), r date, s string, u int"
)
TABLE = f"""create table public.drill (a text, b boolean, c int2, d int8, e numeric, f real, g float8, h date, i timestamptz,
    j bytea, k numeric(14,4), l numeric, m uuid, o jsonb, p json, q numeric(5,1), r timestamptz, s varchar(8), u money,
    {COORDINATES}, primary key (_stream, _offset, _ordinal))"""
EXTREMES = [
    {},
    {
        "a": "ä\u200b€ 'x'",
        "b": "true",
        "c": -32768,
        "d": 2**31 - 1,
        "e": -(2**63),
        "f": "-0.0",
        "g": "NaN",
        "h": "0001-01-01",
        "i": "2026-05-01T12:00:00.123456+02:00",
        "j": "\\x00ff",
        "k": "-0.10",
        "l": "1e-10",
        "m": "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "o": '{"b": 1.0, "a": [null, 1e2]}',
        "p": '{"b":1, "a":  2}',
        "q": "1.20",
        "r": "2026-05-01",
        "s": "12345678",
        "u": 7,
    },
    {
        "a": "",
        "b": "false",
        "c": 0,
        "d": 0,
        "e": 0,
        "f": "0.1",
        "g": "-Infinity",
        "h": "9999-12-31",
        "i": "1970-01-01T00:00:00Z",
        "j": "\\x",
        "k": "1.00",
        "l": "12345678901234567890.0123456789",
        "m": "00000000-0000-0000-0000-000000000000",
        "o": "null",
        "p": "[]",
        "q": "0",
        "r": "1999-12-31",
        "s": "",
        "u": 0,
    },
]
FIRST = "where ctid = (select {0}(ctid) from public.drill where {1} is {2})"
BEND = """create function public.bend() returns trigger language plpgsql as
    $$ begin new.n := new.n + 1000; return new; end $$; grant execute on function public.bend() to lockstep_targets; select 1"""
TRIGGER = """
    create trigger bend before insert on public.drill for each row execute function public.bend();"""
EDITS = {
    "a": "'b'",
    "b": "not b",
    "c": "c + 1::int2",
    "d": "d + 1",
    "e": "e + 0.1",
    "f": "f + 1",
    "g": "1",
    "h": "h - 1",
    "i": "i + interval '1 us'",
    "j": "'\\x01'",
    "k": "k + 0.0001",
    "l": "l + 1e-30",
    "m": "gen_random_uuid()",
    "o": "o || '[1]'",
    "p": "'[1]'",
    "q": "q + 0.1",
    "r": "r + interval '1 s'",
    "s": "'z'",
}


@pytest.mark.parametrize("kind", ["append", "by batch"])
@pytest.mark.parametrize("change", CHANGED)
def test_a_row_that_is_not_the_committed_one_is_found(contents, kind, change):
    here = contents(kind)
    here.drain()
    assert re.fullmatch(r"3 segments by digest", here.check().detail)
    assert here.check().ok
    here.sql(CHANGED[change])
    found = here.check()
    assert not found.ok
    assert re.search(WRONG, found.detail), found.detail
    if change in {"changed", "emptied", "changing places"}:
        assert here.others() == set()


def test_only_the_changed_batch_and_stream_is_named(contents, produce):
    here = contents()
    here.drain()
    produce(here.drill.topic, [("k", json.dumps({"id": f"r{i}", "n": i})) for i in range(5)], partition=1)
    here.drain()
    here.sql("update public.drill set n = -1 where ctid = (select min(ctid) from public.drill where _batch = 2)")
    assert (
        here.check().detail
        == f"{here.drill.topic}-1: batch 2: the 5 rows in public.drill are not those that it committed"
    )


def test_each_of_several_targets_is_compared(contents):
    here = contents("several")
    here.drain()
    assert here.check().ok
    here.sql("update public.beside set n = -1 where _offset = 3 and _stream = 1")
    found = here.check()
    assert not found.ok
    assert "rows in public.beside are not those" in found.detail


def test_a_changed_reject_is_found(contents, produce):
    here = contents()
    produce(here.drill.topic, [("k", "no json")])
    here.drain()
    assert here.check().ok
    here.sql("update lockstep.reject set value = 'other'")
    assert "the 1 rejects in the ledger are not those" in here.check().detail


SETTINGS = (
    *("timezone = 'Asia/Kolkata'", "datestyle = 'German'", "intervalstyle = 'iso_8601'", "extra_float_digits = -5"),
    *("bytea_output = 'escape'", "lc_monetary = 'C'", "search_path = 'public, pg_catalog'", "enable_hashagg = off"),
)


def changed(here, statement: str) -> bool:
    """Returns True if plain verify finds a change. The change is then undone."""
    with transaction(here.at.conn, OWNER) as cur:
        cur.execute(statement)
        found = contents_checks(cur, here.folder.pipeline)
        here.at.conn.rollback()
    return not all(check.ok for check in found)


def test_every_type_keeps_its_digest_from_staging_to_the_target(contents, produce):
    here = contents(target_sql=TABLE, schema=TYPES)
    produce(here.drill.topic, [("k", json.dumps(record)) for record in EXTREMES])
    here.drain()
    assert here.check().ok, here.check()
    assert here.sql("select count(*), count(e) as e, count(u) as u from public.drill") == [(153, 2, 2)]
    for setting in SETTINGS:
        assert not changed(here, f"set local {setting}"), setting
    assert not changed(here, "update public.drill set a = a, l = l + 0.000000000000")
    for column, edit in EDITS.items():
        assert changed(here, f"update public.drill set {column} = {edit} {FIRST.format('min', column, 'not null')}"), (
            column
        )
        for which in ("min", "max"):  # extremes, and what is as good as nothing: zero, an empty text
            of_it = FIRST.format(which, column, "not null")
            assert changed(here, f"update public.drill set {column} = null {of_it}"), (column, which)
            value = f"(select {column} from public.drill {of_it})"
            of_null = FIRST.format("min", column, "null")
            assert changed(here, f"update public.drill set {column} = {value} {of_null}"), (column, which)


def test_each_pair_of_rows_that_exchange_a_value_is_found(contents):
    here = contents()
    here.drain()
    for offset in range(12):
        exchange = f"""update public.drill t set n = o.n from public.drill o where t._stream = 1 and o._stream = 1
            and (t._offset, o._offset) in (({offset}, {offset + 1}), ({offset + 1}, {offset}))"""
        assert changed(here, exchange), offset


def test_values_that_a_trigger_of_the_table_makes_are_the_committed_ones(contents):
    contents().sql(BEND)  # the operator's own
    here = contents(target_sql=APPENDED.format(text="text") + TRIGGER)
    here.drain()
    assert here.sql("select count(*) from public.drill where n >= 1000") == [(150,)]
    assert here.check().ok
    assert changed(here, CHANGED["changed"])


def test_a_batch_from_before_digests_is_counted_as_not_provable(contents, produce):
    here = contents()
    here.drain()
    here.sql("delete from lockstep.content")
    produce(here.drill.topic, [("k", '{"id": "later", "n": 1}')])
    here.drain()
    found = here.check()
    assert found.ok
    assert (found.detail, found.left_out) == (
        "1 segments by digest",
        "1 batches were committed before digests were kept",
    )
    assert changed(here, "update public.drill set n = 2 where _batch = 2")


def test_a_column_of_another_type_is_told_as_not_provable(contents):
    here = contents()
    here.drain()
    here.sql("alter table public.drill alter n type bigint")
    assert here.check().detail == "3 segments by digest"
    here.sql("alter table public.drill alter n type text")
    found = here.check()
    assert (found.detail, found.proves) == ("0 segments by digest", "nothing")
    assert found.left_out == "3 segments had another column n of public.drill"


def test_a_replay_and_a_fill_keep_their_digests_and_those_of_their_neighbours(contents):
    here = contents()
    here.plan()
    here.skip("0:10,1:10,2:10")
    here.drain()
    here.code = lambda value: value | {"n": value["n"] + 1000}
    here.fill()
    here.replay("0:12", "0:20")
    assert here.sql("select count(*) from public.drill") == [(150,)]
    assert here.sql("select count(distinct _batch) from public.drill")[0][0] >= 2
    assert here.check().ok, here.check()
    assert changed(here, "update public.drill set n = -1 where _offset = 3")
    assert changed(here, "update public.drill set n = -1 where _offset = 15")


@pytest.mark.parametrize("text", ["text", "varchar(9)"])
def test_a_range_that_its_task_commits_keeps_its_digest(contents, produce, text):
    here = contents(target_sql=APPENDED.format(text=text), more=", guarantee=PerPartition()")
    produce(here.drill.topic, [("k", "no json")])
    here.drain()
    assert here.sql("select count(*) from public.drill") == [(150,)]
    assert here.check().ok, here.check()
    assert changed(here, CHANGED["changed"])
    assert changed(here, CHANGED["put in"])
    here.replay()
    assert here.check().ok, here.check()


def test_a_range_that_its_task_upserts_has_a_digest_of_what_was_staged(contents):
    here = contents("upsert", more=", guarantee=PerPartition()")
    here.drain()
    assert here.sql("select count(*) from lockstep.content where rows_digest <> 0 and shape_id is null") == [(3,)]


@pytest.mark.parametrize(
    ("staged", "held", "alike"),
    [
        ("integer", "bigint", True),
        ("bigint", "integer", True),
        ("real", "double precision", True),
        ("double precision", "real", False),
        ("numeric(12,2)", "numeric(14,4)", True),
        ("numeric(12,2)", "numeric", True),
        ("numeric(12,2)", "numeric(12,1)", False),
        ("bigint", "numeric", False),
        ("text", "character varying", True),
        ("text", "character varying(9)", False),
        ("text", "uuid", False),
        ("date", "timestamp with time zone", False),
    ],
)
def test_types_hash_alike_where_a_value_keeps_its_number(conn, staged, held, alike):
    assert hash_alike(staged, held) is alike
    value = "'1.25'" if "(" in staged or staged in {"real", "double precision"} else "'12'"
    value = {"date": "'2026-05-01'", "text": "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"}.get(staged, value)
    with transaction(conn, OWNER) as cur:
        one, other = (
            f"hash_record_extended(row({cast}), 0)" for cast in (f"{value}::{staged}", f"{value}::{staged}::{held}")
        )
        cur.execute(f"select {one} = {other}")
        assert cur.fetchone()[0] or not alike


def test_a_type_whose_text_hangs_on_a_setting_is_left_out():
    assert [t for t in ("money", "regclass", "integer[]", "public.mood", "numeric(5,1)") if is_hashable(t)] == [
        "numeric(5,1)"
    ]
