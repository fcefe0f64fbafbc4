"""Tests fill and replay into a keyed target.

The newest record of a key stays its row, and no deleted key comes back.
"""

from __future__ import annotations

import json

import pytest

from lockstep.adapters.postgres import connect
from lockstep.ledger.migrate import migrate_target
from support.oracles.checker import check
from support.oracles.contents import as_it_is

KEYED = """
create table if not exists public.drill (id text primary key, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null);
"""


@pytest.fixture
def keyed(here, drill, produce):
    """Returns the drill with a target that keeps the newest record of each key.

    One partition of a separate topic is written.
    """
    here.rewrite('Json("id string, n int")', 'Json("id string, n int", key="id")')
    here.rewrite('target=Append("public.drill")', 'target=Upsert("public.drill", key=("id",))')
    here.rewrite("import Append, Json", "import Json, Upsert")
    (drill.home / "drill" / "target.sql").write_text("drop table public.drill;" + KEYED)
    conn = connect(drill.dsn)
    migrate_target(conn, here.folder)
    conn.close()

    def put(*records: tuple[str, int | None]) -> None:
        """Writes records of one partition, in order, and runs a batch that reads them."""
        produce(
            drill.topic,
            [(key, None if n is None else json.dumps({"id": key, "n": n})) for key, n in records],
            partition=0,
        )
        here.drain()

    here.drain()
    here.put = put
    return here


def of(here, *keys: str):
    return dict(here.drill.ask("select id, n from public.drill where id = any(%s) order by 1", list(keys)))


def last_segment(here) -> str:
    ((batch, _),) = here.drill.committed()[-1:]
    return str(batch)


def proved(here, becomes=as_it_is) -> bool:
    assert check(here.drill.dsn, here.drill.kafka, "drill", "public.drill", "id", becomes=becomes, least=1) == []
    return True


def tenfold_where(key: str):
    """Returns the values after a replay of this key alone, by code that multiplies `n` by ten."""

    def becomes(_key, value, row):
        content = as_it_is(_key, value, row)
        return content and content | {"n": content["n"] * (10 if content["id"] == key else 1)}

    return becomes


def test_a_replay_of_old_records_does_not_overwrite_newer_ones(keyed):
    keyed.put(("a", 1), ("b", 1))
    old = last_segment(keyed)
    keyed.put(("a", 2))

    keyed.replay(old, old)

    assert of(keyed, "a", "b") == {"a": 2, "b": 1}
    assert proved(keyed)


def test_a_corrected_replay_takes_effect_where_nothing_newer_is(keyed):
    keyed.put(("a", 1), ("b", 1))
    old = last_segment(keyed)
    keyed.put(("a", 2))
    keyed.code = lambda value: value | {"n": value["n"] * 10}

    keyed.replay(old, old)

    assert of(keyed, "a", "b") == {"a": 2, "b": 10}
    assert proved(keyed, tenfold_where("b"))


def test_a_row_that_the_code_no_longer_yields_is_deleted_and_earlier_versions_stay_away(keyed):
    keyed.put(("a", 1), ("b", 1))
    keyed.put(("a", 99), ("b", 2))
    newest = last_segment(keyed)
    keyed.code = lambda value: None if value["n"] == 99 else value

    keyed.replay(newest, newest)

    assert of(keyed, "a", "b") == {"b": 2}


def test_of_several_records_in_a_segment_the_newest_that_is_still_yielded_is_the_row(keyed):
    keyed.put(("a", 1), ("a", 2), ("a", 99))
    segment = last_segment(keyed)
    keyed.code = lambda value: None if value["n"] == 99 else value

    keyed.replay(segment, segment)

    assert of(keyed, "a") == {"a": 2}


def test_a_replay_does_not_raise_the_dead(keyed):
    keyed.put(("a", 1), ("b", 1))
    old = last_segment(keyed)
    keyed.put(("a", None))

    keyed.replay(old, old)

    assert of(keyed, "a", "b") == {"b": 1}
    assert proved(keyed)


def test_a_replayed_deletion_deletes_again(keyed):
    keyed.put(("a", 1))
    keyed.put(("a", None), ("b", 5))
    deletion = last_segment(keyed)

    keyed.replay(deletion, deletion)

    assert of(keyed, "a", "b") == {"b": 5}
    assert keyed.drill.ask("select count(*) from lockstep.tombstone") == [(1,)]
    assert proved(keyed)


def test_a_fill_of_what_was_skipped_leaves_newer_rows_and_deletions_alone(keyed, produce):
    records = [("a", 1), ("b", 1), ("c", 1)]
    produce(keyed.drill.topic, [(k, json.dumps({"id": k, "n": n})) for k, n in records], partition=0)
    keyed.skip()
    keyed.put(("a", 2), ("b", None))

    keyed.fill()

    assert of(keyed, "a", "b", "c") == {"a": 2, "c": 1}
    assert proved(keyed)


def test_a_preview_counts_keys_and_changes_nothing(keyed):
    keyed.put(("a", 1), ("b", 1), ("c", 1))
    segment = last_segment(keyed)
    keyed.put(("c", 2))
    keyed.code = lambda value: None if value["id"] == "b" else value | {"n": value["n"] * 10}

    found, _ = keyed.preview("replay", segment, segment)

    assert found.counts == {"added": 0, "changed": 1, "removed": 1, "unchanged": 1}
    assert of(keyed, "a", "b", "c") == {"a": 1, "b": 1, "c": 2}
    assert proved(keyed)


def test_everything_replayed_is_what_one_clean_pass_leaves(keyed):
    keyed.put(("a", 1), ("b", 1), ("a", None))
    keyed.put(("b", 2), ("c", 1), ("c", None), ("a", 3))
    before = keyed.drill.ask("select id, n, _stream, _offset from public.drill order by 1")

    keyed.replay("0:0,1:0,2:0")

    assert keyed.drill.ask("select id, n, _stream, _offset from public.drill order by 1") == before
    assert proved(keyed)
