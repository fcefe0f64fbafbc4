"""Tests that the newest record of a key is its row, whichever lane comes last."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockstep.core.errors import BadData
from lockstep.core.pipeline.definition import PerPartition
from lockstep.targets import upsert
from simulation.log import BEGINNING, Record
from simulation.scene import COMMITTED, Scene, told


def wrote(scene, partition: int, *records: tuple[str, int | None]) -> None:
    """Writes records of a partition."""
    part = scene.log.parts[partition]
    for key, n in records:
        value = None if n is None else b'{"id": "%s", "n": %d}' % (key.encode(), n)
        part.records[part.end] = Record(key.encode(), value, BEGINNING)
        part.end = part.stable_end = part.end + 1


def put(scene, *records: tuple[str, int | None]) -> None:
    """Writes records of partition 0, and runs a batch that reads them."""
    wrote(scene, 0, *records)
    scene.done()


def by_key(scene) -> dict[str, int]:
    return dict(scene.ask("select id, n from public.house order by 1"))


def test_a_replay_of_older_records_leaves_the_newer_row(keyed):
    put(keyed, ("a", 1), ("b", 1))
    put(keyed, ("a", 2))
    keyed.factor = 10

    assert keyed.on(keyed.plan_request(keyed.asked("replay", {0: 0}, {0: 2}))) == COMMITTED

    assert by_key(keyed) == {"a": 2, "b": 10}
    assert keyed.violations() == []


def test_a_replay_does_not_raise_the_dead(keyed):
    put(keyed, ("a", 1), ("b", 1))
    put(keyed, ("a", None))

    assert keyed.on(keyed.plan_request(keyed.asked("replay", {0: 0}, {0: 2}))) == COMMITTED

    assert by_key(keyed) == {"b": 1}
    assert keyed.violations() == []


def test_in_one_batch_the_newest_record_of_a_key_wins(keyed):
    put(keyed, ("a", 1), ("b", 1), ("a", 3), ("b", None))
    assert by_key(keyed) == {"a": 3}
    assert keyed.violations() == []


@pytest.fixture(params=["per batch", "per partition"])
def either(request, database, tmp_path):
    guarantee = PerPartition() if request.param == "per partition" else None
    scene = Scene(database, tmp_path, kind="keyed", guarantee=guarantee)
    yield scene
    scene.end()


def test_a_row_that_a_stranger_writes_while_new_keys_are_inserted_becomes_the_records(either, monkeypatch):
    inserted, row = upsert.inserted_new, "insert into public.house values ('a', 7, 7, 7, 7, 7, 7) returning 1"

    def after_a_stranger(*arguments: Any) -> int:
        assert either.ask(row) == [(1,)]
        return inserted(*arguments)

    monkeypatch.setattr(upsert, "inserted_new", after_a_stranger)
    wrote(either, 0, ("a", 1), ("b", 1))

    assert told(either.done) == COMMITTED
    assert by_key(either) == {"a": 1, "b": 1}
    assert either.violations() == []


def test_another_key_of_the_table_that_new_records_break_is_named_and_nothing_is_written(either):
    assert either.ask("create unique index one_n on public.house (n); select 1") == [(1,)]

    with pytest.raises(BadData, match="one_n"):
        put(either, ("a", 1), ("b", 1))

    assert by_key(either) == {}


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_a_key_in_two_partitions_is_refused_and_named(either, in_one_batch):
    """Nothing says which record is newer."""
    wrote(either, 0, ("a", 1), ("b", 1), ("b", 2))
    if not in_one_batch:
        either.done()
    wrote(either, 1, ("a", 2))

    with pytest.raises(BadData, match="a key stands in two partitions") as no:
        either.done()

    assert no.value.values == "the key is ['a']"
    assert by_key(either).get("a") != 2


def ranked(scene, partition: int, *records: tuple[str, int, int | None]) -> None:
    """Writes records (key, n, rank) of a partition, and runs a batch that reads them."""
    part = scene.log.parts[partition]
    for key, n, rank in records:
        value = json.dumps({"id": key, "n": n, "rank": rank}).encode()
        part.records[part.end] = Record(key.encode(), value, BEGINNING)
        part.end = part.stable_end = part.end + 1


def test_with_order_by_a_replay_of_a_lower_rank_leaves_the_row(ordered):
    ranked(ordered, 0, ("a", 1, 5), ("b", 1, 1))
    ordered.done()
    ranked(ordered, 0, ("a", 2, 3), ("b", 2, 1))
    ordered.done()
    ordered.factor = 10

    assert ordered.on(ordered.plan_request(ordered.asked("replay", {0: 0}, {0: 2}))) == COMMITTED

    assert by_key(ordered) == {"a": 10, "b": 2}
    assert ordered.violations() == []


@pytest.mark.parametrize("first", [0, 1])
def test_records_of_one_rank_at_one_offset_of_two_partitions_have_one_winner_whichever_came_first(ordered, first):
    for partition in (first, 1 - first):
        ranked(ordered, partition, ("a", partition, 7))
        ordered.done()

    assert by_key(ordered) == {"a": 1}  # of the later stream, in whatever batch it was read
    assert ordered.violations() == []


def test_in_one_batch_as_well_the_later_stream_wins_a_tie(ordered):
    ranked(ordered, 1, ("a", 1, 7))
    ranked(ordered, 0, ("a", 0, 7))
    ordered.done()
    assert by_key(ordered) == {"a": 1}
    assert ordered.violations() == []


def test_a_record_without_a_rank_is_refused_and_named(ordered):
    ranked(ordered, 2, ("a", 1, 4), ("a", 2, None))
    assert "rank of the record at house.v1-2 offset 1 is null" in told(ordered.done)
    assert by_key(ordered) == {}
