"""Tests that after an erasure verify sees every other change, and that nothing still quotes the key.

No half of an erasure is done.
"""

from __future__ import annotations

import json

import pytest

from lockstep.adapters.postgres import transaction
from lockstep.core.errors import Refusal
from lockstep.ledger.proof.verify_contents import CONTENTS_AS_COMMITTED as CONTENTS
from lockstep.ledger.proof.verify_erased import ERASED_STAYS_OUT
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
