"""Tests that a value too long for an index of its table is a reject, and that its batch is committed without it."""

from __future__ import annotations

import json
import random
from contextlib import closing

import pytest

from lockstep.adapters.postgres import connect
from lockstep.core.errors import BadData
from support.scenes.forged import COORDINATES

CHANCE = random.Random(7)  # noqa: S311 - spread, not secrecy
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def letters(count: int) -> str:
    """Returns letters that no compression makes much shorter."""
    return "".join(CHANCE.choices(LETTERS, k=count))


INDEXED = "create index by_id on public.drill (id)"
LOWERED = "create index by_id on public.drill (lower(id))"
TOTALS = f"create table public.drill (id text primary key, total numeric, records int8 not null, {COORDINATES});"
HISTORY = f"""create table public.drill (id text not null, n int, valid_from timestamptz not null, valid_to timestamptz,
    {COORDINATES}, primary key (id, valid_from, _stream, _offset, _ordinal));"""
CASES = {
    "a key of rows": ("upsert", "", "select 1"),
    "a key of totals": ("accumulate", TOTALS, "select 1"),
    "an index of appended rows": ("append", "", INDEXED),
    "an expression": ("append", "", LOWERED),
    "a second index": ("upsert", "", LOWERED),
    "a table by batch": ("by batch", "", INDEXED),
}
WITH_KEYS = 'id string, n int", key="id'
ALL_MAY_BE = ", max_reject_share=1.0"


def committed(here) -> None:
    """Runs until nothing waits, and fails if a batch is refused."""
    try:
        here.drain()
    except BadData as refused:
        pytest.fail(str(refused))


@pytest.mark.parametrize("case", CASES)
def test_a_value_that_its_index_cannot_hold_is_a_reject_and_the_others_are_rows(contents, produce, case):
    kind, target_sql, rule = CASES[case]
    here = contents(kind, target_sql, more=ALL_MAY_BE)
    here.drain()
    here.sql(f"{rule}; select 1")
    first = here.at.broker.view(here.drill.topic).bounds[0].stable_end
    ids = ["good", letters(9000), "a" * 9000, letters(2500), letters(3000), "too"]
    produce(here.drill.topic, [("k", json.dumps({"id": each, "n": 1})) for each in ids], partition=0)

    committed(here)

    rejects = here.sql(f'select "offset", reason from lockstep.reject where "offset" >= {first} order by 1')
    assert [offset - first for offset, _ in rejects] == [1, 4]
    for (_, reason), size in zip(rejects, (9000, 3000), strict=True):
        assert reason.startswith(f"column id: {size} bytes are too long for an index of public.drill: index row ")
        assert "for index" not in reason
        assert reason.endswith("; its bytes are not kept")
    added = [ids[n] for n in (0, 2, 3, 5)]
    found = [row for (row,) in here.sql("select id from public.drill where id in ('good', 'too') or length(id) > 99")]
    assert sorted(found) == sorted(added)
    assert not here.others()


def test_a_reject_that_an_older_transaction_may_see_stops_no_table_by_batch(contents, produce):
    """An index is built over dead rows, too, as long as a snapshot from before is open."""
    here = contents("by batch", more=ALL_MAY_BE)
    here.drain()
    here.sql(f"{INDEXED}; select 1")
    ids = ["good", letters(9000), "too"]
    produce(here.drill.topic, [("k", json.dumps({"id": each, "n": 1})) for each in ids], partition=0)

    with closing(connect(here.drill.dsn)) as other, other.cursor() as cur:
        other.set_session(isolation_level="REPEATABLE READ")
        cur.execute("select count(*) from public.drill")
        committed(here)

    assert here.sql("select id from public.drill where id in ('good', 'too') order by 1") == [("good",), ("too",)]
    assert not here.others()


def test_a_deleted_key_that_the_ledger_cannot_remember_is_a_reject(contents, produce):
    here = contents("upsert", more=ALL_MAY_BE, schema=WITH_KEYS)
    here.drain()
    first = here.at.broker.view(here.drill.topic).bounds[0].stable_end
    there = [(each, json.dumps({"id": each, "n": 1})) for each in ("x", "y")]
    produce(here.drill.topic, [*there, ("x", None), (letters(9000), None)], partition=0)

    committed(here)

    rejects = here.sql(f'select "offset", reason from lockstep.reject where "offset" >= {first}')
    assert [offset - first for offset, _ in rejects] == [3]
    assert "column id: 9000 bytes are too long for an index of lockstep.tombstone" in rejects[0][1]
    assert here.sql("select id from public.drill where id in ('x', 'y')") == [("y",)]


def test_of_several_targets_the_commit_names_the_record(contents, produce):
    here = contents("several", more=ALL_MAY_BE)
    here.drain()
    here.sql("create index by_id on public.beside (id); select 1")
    first = here.at.broker.view(here.drill.topic).bounds[0].stable_end
    ids = ["good", letters(9000), "too"]
    produce(here.drill.topic, [("k", json.dumps({"id": each, "n": 1})) for each in ids], partition=0)

    with pytest.raises(BadData, match=f"the first such record is {here.drill.topic}-0 offset {first + 1}"):
        here.drain()


def test_a_replay_makes_the_same_records_rejects(contents, produce):
    here = contents("upsert", more=ALL_MAY_BE)
    first = here.at.broker.view(here.drill.topic).bounds[0].stable_end
    ids = ["good", letters(9000), "too"]
    produce(here.drill.topic, [("k", json.dumps({"id": each, "n": 1})) for each in ids], partition=0)
    here.drain()
    found = here.sql('select "offset", reason from lockstep.reject')

    here.replay(f"0:{first}", f"0:{first + 3}")

    assert here.sql('select "offset", reason from lockstep.reject') == found
    assert [offset for offset, _ in found] == [first + 1]
