"""Tests that a key's totals count each of its records once, as today's code makes them.

This holds whatever is replayed, in whatever order.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from simulation.log import BEGINNING, Record
from simulation.scene import COMMITTED, told


def put(scene, *records: tuple[str | None, int | None], partition: int = 0) -> None:
    """Writes records (key, n) of a partition, and runs a batch that reads them."""
    part = scene.log.parts[partition]
    for key, n in records:
        part.records[part.end] = Record(b"k", json.dumps({"id": key, "n": n}).encode(), BEGINNING)
        part.end = part.stable_end = part.end + 1
    scene.done()


def replay(scene, begin: int, end: int, partition: int = 0) -> str:
    return scene.on(scene.plan_request(scene.asked("replay", {partition: begin}, {partition: end})))


def totals(scene) -> dict[str, tuple]:
    found = scene.ask("select id, records, numbers, total, least, most from public.house order by 1")
    return {key: tuple(row) for key, *row in found}


def test_records_add_up_over_batches_and_partitions(accumulated):
    put(accumulated, ("a", 1), ("a", 5), ("b", None))
    put(accumulated, ("a", 3), partition=1)
    assert totals(accumulated) == {"a": (3, 3, Decimal(9), 1, 5), "b": (1, 0, None, None, None)}
    put(accumulated, ("a", None), ("b", 4), partition=2)
    assert totals(accumulated) == {"a": (4, 3, Decimal(9), 1, 5), "b": (2, 1, Decimal(4), 4, 4)}
    assert accumulated.violations() == []


def test_a_replay_takes_the_old_out_and_adds_the_new(accumulated):
    put(accumulated, ("a", 1), ("b", 7))
    put(accumulated, ("a", 4))
    accumulated.factor = 10

    assert replay(accumulated, 0, 2) == COMMITTED

    assert totals(accumulated) == {"a": (2, 2, Decimal(14), 4, 10), "b": (1, 1, Decimal(70), 70, 70)}
    assert accumulated.violations() == []


def test_a_replay_again_and_again_changes_nothing_more(accumulated):
    put(accumulated, ("a", 1), ("b", None))
    put(accumulated, ("a", 4))
    before = totals(accumulated)
    for _ in range(3):
        assert accumulated.redo("replay", {0: 0}, {0: 3})["committed"] != []
        assert totals(accumulated) == before
    assert accumulated.violations() == []


def test_the_least_and_the_greatest_are_taken_anew_from_what_is_left(accumulated):
    put(accumulated, ("a", -9), ("a", 9))
    put(accumulated, ("a", 2))
    accumulated.factor = 0  # today's code makes nothing of the old extremes

    assert replay(accumulated, 0, 2) == COMMITTED

    assert totals(accumulated) == {"a": (3, 3, Decimal(2), 0, 2)}
    assert accumulated.violations() == []


def test_a_key_that_nothing_is_left_of_has_no_row(accumulated, monkeypatch):
    put(accumulated, ("a", 1), ("b", 2))
    put(accumulated, ("b", 3))
    part = accumulated.log.parts[0]
    renamed = Record(b"k", b'{"id": "c", "n": 1}', BEGINNING)
    monkeypatch.setitem(part.records, 0, renamed)  # what the code of the day makes of it

    assert replay(accumulated, 0, 2) == COMMITTED

    assert set(totals(accumulated)) == {"b", "c"}
    assert accumulated.violations() == []


def test_a_sum_that_loses_its_numbers_is_null_and_not_nought(accumulated, monkeypatch):
    put(accumulated, ("a", 1), ("b", 5), ("b", -5))
    put(accumulated, ("a", None))
    monkeypatch.setitem(accumulated.log.parts[0].records, 0, Record(b"k", b'{"id": "a", "n": null}', BEGINNING))

    assert replay(accumulated, 0, 3) == COMMITTED

    assert totals(accumulated) == {"a": (2, 0, None, None, None), "b": (2, 2, Decimal(0), -5, 5)}
    assert accumulated.violations() == []


def test_what_was_skipped_counts_once_it_is_filled(accumulated):
    put(accumulated, ("a", 1))
    part = accumulated.log.parts[0]
    part.records[1] = Record(b"k", b'{"id": "a", "n": 20}', BEGINNING)
    part.end = part.stable_end = 2
    accumulated.skip({0: 2})
    put(accumulated, ("a", 3))
    assert totals(accumulated)["a"] == (2, 2, Decimal(4), 1, 3)

    assert accumulated.on(accumulated.plan_request(accumulated.asked("fill", {0: 1}, {0: 2}))) == COMMITTED

    assert totals(accumulated)["a"] == (3, 3, Decimal(24), 1, 20)
    assert accumulated.ask("select _offset from public.house") == [(2,)]  # the newest that counts, not the last to come
    assert accumulated.violations() == []


def test_a_null_key_is_refused_and_named(accumulated):
    assert "id of the record at house.v1-0 offset 1 is null" in told(lambda: put(accumulated, ("a", 1), (None, 2)))
    assert totals(accumulated) == {}
    assert accumulated.ask("select count(*) from lockstep.contribution") == [(0,)]


def test_a_preview_tells_the_totals_that_would_change_and_changes_none(accumulated):
    put(accumulated, ("a", 1), ("b", 2))
    put(accumulated, ("c", 3))
    before = totals(accumulated), accumulated.ask("select * from lockstep.contribution order by key")
    accumulated.factor = 2

    found = accumulated.preview({0: 0})

    assert {name: found[name] for name in ("added", "changed", "removed", "unchanged")} == {
        "added": 0,
        "changed": 3,
        "removed": 0,
        "unchanged": 0,
    }
    assert (totals(accumulated), accumulated.ask("select * from lockstep.contribution order by key")) == before


def test_a_preview_tells_a_key_that_would_lose_its_row(accumulated, monkeypatch):
    put(accumulated, ("a", 1), ("b", 2))
    monkeypatch.setitem(accumulated.log.parts[0].records, 0, Record(b"k", b'{"id": "c", "n": 1}', BEGINNING))
    found = accumulated.preview({0: 0})
    assert (found["added"], found["removed"], found["unchanged"]) == (1, 1, 1)


def test_a_replay_that_forgets_to_take_out_is_refused_by_the_database(accumulated, monkeypatch):
    put(accumulated, ("a", 1))
    monkeypatch.setattr("lockstep.steps.batch.commit.withdraw", lambda *_, **__: {})
    assert "withdrawn_whole" in replay(accumulated, 0, 1)
    assert totals(accumulated) == {"a": (1, 1, Decimal(1), 1, 1)}


def test_without_that_constraint_the_code_takes_out_by_itself(accumulated):
    accumulated.ask("drop trigger withdrawn_whole on lockstep.coverage")
    put(accumulated, ("a", 1))
    assert replay(accumulated, 0, 1) == COMMITTED
    assert totals(accumulated) == {"a": (1, 1, Decimal(1), 1, 1)}
    assert accumulated.violations() == []


def test_a_batch_that_is_published_twice_is_refused_by_the_database(accumulated, monkeypatch):
    from lockstep.steps.batch import commit  # noqa: PLC0415 - patched below

    once = commit.publish_staged

    def twice(*arguments: Any) -> dict[str, int]:
        once(*arguments)
        return once(*arguments)

    monkeypatch.setattr(commit, "publish_staged", twice)
    assert "contributes_once" in told(lambda: put(accumulated, ("a", 1)))
    assert totals(accumulated) == {}
