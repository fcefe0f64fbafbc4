"""Tests that after an erasure verify sees every other change, and that nothing still quotes the key.

No half of an erasure is done.
"""

from __future__ import annotations

import json

import pytest

from lockstep.adapters.postgres import PLANNER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.ledger.changes import history
from lockstep.ledger.changes.search import LEDGER_NAMES, UNSEARCHED_COLUMNS
from lockstep.ledger.proof.verify_contents import CONTENTS_AS_COMMITTED as CONTENTS
from lockstep.ledger.proof.verify_erased import ERASED_STAYS_OUT
from lockstep.steps.requests.preview import preview
from support.scenes.erasing import KEY, detail_of, erase_key, feed, holding, wrong

SHOWN = "select * from public.drill t order by t::text"


@pytest.mark.parametrize(
    "change",
    [
        "delete from public.drill where _offset = 3 and _batch = 1",
        "update public.drill set n = n + 1 where _offset = 3 and _batch = 1",
        'update lockstep.reject set reason = \'another\' where "offset" = (select min("offset") from lockstep.reject)',
        'delete from lockstep.reject where "offset" = (select min("offset") from lockstep.reject)',
    ],
)
def test_verify_sees_every_other_change_after_an_erasure(contents, produce, change):
    here = contents()
    feed(produce, here.drill.topic)
    here.drain()
    erase_key(here)
    assert wrong(here, deep=False) == []
    assert here.sql(change)[0][0] >= 1
    assert any("are not those" in detail for _, detail in wrong(here, deep=False))


def test_a_row_of_an_erased_key_that_came_back_is_named(contents, produce):
    here = contents("upsert")
    feed(produce, here.drill.topic)
    here.drain()
    row = here.sql(f"select _stream, _offset, _batch from public.drill where id = '{KEY}'")[0]
    erase_key(here)
    here.sql(f"insert into public.drill values ('{KEY}', 1, {row[0]}, {row[1]}, 0, {row[2]})")
    found = dict(wrong(here, deep=False))
    assert f"offset {row[1]} of public.drill holds a key that decision 1 erased" in found.get(ERASED_STAYS_OUT, "")


def test_an_erasure_that_was_rewritten_is_named(contents, produce):
    here = contents()
    feed(produce, here.drill.topic)
    here.drain()
    erase_key(here)
    here.sql(
        "update lockstep.erased set rows = rows + 1 where relation = 'public.drill' and \"offset\" = "
        "(select min(\"offset\") from lockstep.erased where relation = 'public.drill')"
    )
    assert "what it took out is not what decision 1 says" in dict(wrong(here, deep=False)).get(ERASED_STAYS_OUT, "")


def test_errors_and_verdicts_that_quote_the_key_lose_it_and_the_chain_holds(contents, produce):
    here = contents()
    feed(produce, here.drill.topic)
    attempt = here.validated()
    with transaction(here.at.conn, None) as cur:
        cur.execute("set role lockstep_owner")
        cur.execute("update lockstep.verdict set result = result || %s", (json.dumps({"results": [KEY]}),))
        cur.execute("update lockstep.attempt set error = %s where closed_at is null", (f"Key (id)=({KEY}) exists",))
    here.commit(attempt)
    here.sql("select lockstep.seal('drill', 100)")
    assert wrong(here) == []
    assert erase_key(here).said == 2
    assert holding(here.drill.dsn) == []
    here.sql("select lockstep.seal('drill', 100)")
    assert wrong(here) == []


def test_what_people_wrote_is_told_for_the_chain_holds_it(contents, produce):
    here = contents()
    feed(produce, here.drill.topic)
    here.drain()
    here.sql(f"insert into lockstep.decision (pipeline, kind, who, why) values ('drill', 'pause', 'me', 'for {KEY}')")
    assert erase_key(here).left == ("the reason of decision 1",)


@pytest.mark.parametrize(
    ("kind", "call", "words"),
    [
        ("append", {"why": f"{KEY} asked for it"}, "the reason holds the key"),
        ("append", {"column": None}, "say which column"),
        ("append", {"column": "customer"}, "public.drill has no column customer"),
        ("append", {"column": "n"}, "the key is no integer"),
        ("accumulate", {"column": "total"}, "cannot be told apart"),
    ],
)
def test_what_cannot_be_erased_whole_is_refused_and_nothing_is_changed(contents, produce, kind, call, words):
    here = contents(kind)
    feed(produce, here.drill.topic)
    here.drain()
    before = here.sql(SHOWN)
    with pytest.raises(Refusal, match=words) as refused:
        erase_key(here, **call)
    assert KEY not in str(refused.value)
    assert here.sql(SHOWN) == before
    assert here.sql("select count(*) from lockstep.decision") == [(0,)]


def test_contents_are_still_compared_batch_by_batch(contents, produce):
    here = contents()
    feed(produce, here.drill.topic)
    here.drain()
    before = detail_of(here, CONTENTS)
    erase_key(here)
    assert detail_of(here, CONTENTS) == before


def rehearsed(here, key: str) -> None:
    """Previews a replay by code that changes the rows of one key, and records what was found as a history run does."""
    here.code = lambda value: value | {"n": value["n"] + (value["id"] == key)}
    asked = here.ask("replay", preview=True)
    found, _ = preview(here.at, here.engine, here.folder, asked.request_id, Caller("me"))
    with transaction(here.at.conn, PLANNER) as cur:
        history.insert_rehearsal(cur, asked.request_id, "code", found.document())


def test_what_a_preview_found_loses_its_rows_and_keeps_their_digest(contents, produce):
    here = contents()
    feed(produce, here.drill.topic)
    here.drain()
    rehearsed(here, KEY)
    assert "lockstep.rehearsal.difference" in holding(here.drill.dsn)
    (before,) = here.sql("select encode(sha256(convert_to(difference::text, 'UTF8')), 'hex') from lockstep.rehearsal")

    assert erase_key(here).left == ()

    assert holding(here.drill.dsn) == []
    shown = "select difference -> 'samples' as rows, (difference -> 'changed')::int as changed, erased_digest"
    assert here.sql(f"{shown} from lockstep.rehearsal") == [([], 3, *before)]
    assert not erase_key(here).changed


def test_a_preview_without_the_key_keeps_its_rows(contents, produce):
    here = contents()
    feed(produce, here.drill.topic)
    here.drain()
    rehearsed(here, "other-0-1")
    before = here.sql("select difference from lockstep.rehearsal")
    erase_key(here)
    assert here.sql("select difference from lockstep.rehearsal where erased_digest is null") == before


def test_a_table_that_nobody_thought_of_is_named_where_it_holds_the_key(contents, produce):
    here = contents()
    feed(produce, here.drill.topic)
    here.drain()
    here.sql(
        "create table lockstep.later (pipeline text, note jsonb, raw bytea);"
        f"insert into lockstep.later values ('drill', '{{\"of\": \"{KEY}\"}}', '{KEY}'), ('drill', null, '{KEY}'),"
        f" ('another', '{{\"of\": \"{KEY}\"}}', null); grant select on lockstep.later to lockstep_reader; select 1"
    )
    assert erase_key(here).left == ("1 rows of lockstep.later, in note", "2 rows of lockstep.later, in raw")


def test_a_table_that_cannot_be_read_is_said_not_to_be_searched(contents, produce):
    here = contents()
    feed(produce, here.drill.topic)
    here.drain()
    here.sql("create table lockstep.later (pipeline text, note text); select 1")
    assert erase_key(here).left == ("lockstep.later was not searched: lockstep_reader may not read it",)


def test_columns_that_erase_does_not_search_are_in_the_catalog(contents):
    here = contents()
    here.drain()
    columns = {
        f"{schema}.{table}.{column}"
        for schema, table, column in here.sql(
            "select n.nspname, c.relname, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid"
            " join pg_namespace n on n.oid = c.relnamespace where a.attnum > 0 and n.nspname ^@ 'lockstep'"
        )
    }
    assert set(UNSEARCHED_COLUMNS) <= columns
    assert set(LEDGER_NAMES) <= {column.rpartition(".")[2] for column in columns}
