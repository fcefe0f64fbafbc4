"""Tests that a second delivery, by an attempt or a replay, replaces the first one's rows and no others."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2
import pytest

from lockstep.context.systems import stores
from lockstep.core.errors import Refusal
from lockstep.faults import InjectedFault
from lockstep.steps.changes.decisions import abandon
from support.scenes.here import ME, Here
from support.scenes.stores_facts import UPSERT

EACH_ONCE = {("Idempotent()", "own"), ("AtLeastOnce()", "warehouse"), ("AtMostOnce()", "files")}  # the others are long


def value(key: str, n: int) -> tuple[str, str]:
    return key, json.dumps({"id": key, "n": n})


@pytest.mark.parametrize("store", ["warehouse", "files"])
def test_a_second_attempt_under_other_code_leaves_nothing_of_the_first(delivered, store):
    drill = delivered("Idempotent()", store)
    drill.dies_at("deliver.done")
    assert len(drill.rows()) == 150
    here = Here(drill)
    here.code = lambda record: {"id": record["id"], "n": -record["n"]} if record["n"] % 2 else None

    here.drain()

    found = drill.rows("n, _stream")
    assert len(found) == 75
    assert all(n < 0 for n, _ in found)
    assert all(ok for ok, _ in drill.verified(here).values()), drill.verified(here)


@pytest.mark.parametrize(
    ("guarantee", "store"),
    [
        pytest.param(guarantee, store, marks=[] if (guarantee, store) in EACH_ONCE else [pytest.mark.long])
        for guarantee in ("Idempotent()", "AtLeastOnce()", "AtMostOnce()")
        for store in ("own", "warehouse", "files")
    ],
)
def test_a_replay_takes_the_old_rows_out_and_touches_no_others(delivered, guarantee, store, produce):
    drill = delivered(guarantee, store)
    here = Here(drill)
    here.drain()
    produce(drill.topic, [value(f"later-{i}", i) for i in range(30)])
    here.drain()
    here.code = lambda record: {"id": record["id"], "n": -1}

    here.replay("1", "1")

    batches = {batch: n for batch, n, _, _ in drill.rows("_batch, n, _stream, _offset")}
    assert len(drill.rows("_stream, _offset")) == len(set(drill.rows("_stream, _offset"))) == 180
    assert batches.keys() == {2, 3}
    assert {n for batch, n, _, _ in drill.rows("_batch, n, _stream, _offset") if batch == 3} == {-1}
    assert all(ok for ok, _ in drill.verified(here).values()), drill.verified(here)


def test_a_replay_that_dies_between_the_moves_is_finished_by_the_next(delivered):
    drill = delivered("Idempotent()", "files")
    here = Here(drill)
    here.drain()
    asked = here.ask("replay", "1", "1")
    here.code = lambda record: {"id": record["id"], "n": -1}
    with pytest.MonkeyPatch.context() as patch:
        armed = drill.home / "armed"
        armed.touch()
        patch.setenv("LOCKSTEP_FAULT", f"deliver.written=raise@{armed}")
        with pytest.raises(InjectedFault, match=r"deliver\.written"):
            here.work(asked)
    assert {n for n, _ in drill.rows("n, _offset")} == {-1}, "the new files are there, each in the place of an old one"

    here.work(asked)

    assert drill.counted() == (0, 0)
    assert len(drill.files()) == 3
    assert all(ok for ok, _ in drill.verified(here).values()), drill.verified(here)


def test_what_a_batch_that_was_abandoned_has_delivered_goes_with_the_next_delivery(delivered, produce):
    drill = delivered("Idempotent()", "files")
    drill.dies_at("deliver.done")
    here = Here(drill)
    abandon(here.at.conn, 1, ME)
    produce(drill.topic, [value(f"later-{i}", i) for i in range(30)])

    here.drain()

    assert len(drill.files()) == 3, "longer files in the place of the shorter ones"
    assert len(drill.rows()) == len(set(drill.rows())) == 180
    assert all(ok for ok, _ in drill.verified(here).values()), drill.verified(here)


# A keyed table in another database.


def keyed() -> dict[str, int]:
    with closing(psycopg2.connect(stores()["WAREHOUSE"])) as conn, conn.cursor() as cur:
        cur.execute("select id, n from public.drill")
        return dict(cur.fetchall())


@pytest.mark.parametrize("point", ["deliver.written", "deliver.done", "commit.ledger_written"])
def test_a_keyed_table_elsewhere_survives_a_crash_at(delivered, point):
    drill = delivered("Idempotent()", "warehouse", UPSERT, [value("a", 1), value("b", 1), value("a", 2), ("b", None)])
    drill.dies_at(point)

    drill.finishes()

    assert keyed() == {"a": 2}
    assert all(ok for ok, _ in drill.verified().values()), drill.verified()


def test_a_replay_does_not_raise_the_dead_in_a_store_that_has_no_ledger(delivered, produce):
    drill = delivered("Idempotent()", "warehouse", UPSERT, [value("a", 1), value("b", 1)])
    here = Here(drill)
    here.drain()
    produce(drill.topic, [("a", None), value("b", 2)])
    here.drain()
    assert keyed() == {"b": 2}
    here.code = lambda record: {"id": record["id"], "n": record["n"] + 100}

    here.replay("1", "1")

    assert keyed() == {"b": 2}, "the deletion and the newer record are newer than what was replayed"
    here.replay("2", "2")
    assert keyed() == {"b": 102}


def test_a_tombstone_whose_batch_dies_behind_its_delivery_is_not_overtaken_by_a_replay(delivered, produce):
    drill = delivered("Idempotent()", "warehouse", UPSERT, [value("a", 1)])
    here = Here(drill)
    here.drain()
    produce(drill.topic, [("a", None)])
    drill.dies_at("deliver.done")  # the store has deleted the row, and the ledger does not know it yet
    assert keyed() == {}

    here.replay("1", "1")
    assert keyed() == {}, "the store itself remembers the deletion"
    drill.finishes()

    assert keyed() == {}


def test_a_store_of_another_ledger_is_refused(delivered):
    drill = delivered("Idempotent()", "warehouse", UPSERT, [value("a", 1)])
    with closing(psycopg2.connect(stores()["WAREHOUSE"])) as conn, conn, conn.cursor() as cur:
        cur.execute("insert into lockstep.stream select s, 'strangers', 7 from generate_series(1, 50) s")

    with pytest.raises(Refusal, match="two ledgers cannot share a store"):
        Here(drill).run()
