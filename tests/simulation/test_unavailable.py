"""Tests that a value which the source's log does not hold stays as it is, in whatever order batches and lanes come."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lockstep.cli.app import app
from lockstep.core.pipeline.definition import PerPartition
from lockstep.core.planning.decisions import Idle
from simulation.mirror import Mirror
from simulation.scene import COMMITTED
from support.fakes.captured import PLACEHOLDER, CapturedRecord, CapturedTable

if TYPE_CHECKING:
    from random import Random


@pytest.fixture
def by_batch(database, tmp_path):
    scene = Mirror(database, tmp_path)
    yield scene
    scene.end()


def row(op: str, key: int, name: str, doc: str | None = None, photo: str | None = None) -> CapturedRecord:
    after = {"id": key, "name": name, "doc": doc, "photo": photo}
    value = {"op": op, "source": {}, "before": None, "after": after}
    return CapturedRecord(json.dumps({"id": key}).encode(), json.dumps(value).encode())


def gone(key: int) -> CapturedRecord:
    value = {"op": "d", "source": {}, "before": {"id": key}, "after": None}
    return CapturedRecord(json.dumps({"id": key}).encode(), json.dumps(value).encode())


def bad(key: int) -> CapturedRecord:
    return CapturedRecord(json.dumps({"id": key}).encode(), b'{"op": "c", "source": {}, "after": {"id": "x"}}')


def of(name: str, doc: str | None, photo: bytes | None = None) -> dict[str, Any]:
    return {"name": name, "doc": doc, "photo": photo}


def test_in_one_batch_the_newest_older_record_gives_the_value(mirror):
    mirror.put(
        row("c", 1, "a", "first"),
        row("u", 1, "b", "second"),
        row("u", 1, "c", PLACEHOLDER),
        row("u", 1, "d", PLACEHOLDER),
    )
    assert mirror.rows == {1: of("d", "second")}
    if mirror.pipeline.guarantee != PerPartition():
        assert mirror.unavailable == 0


def test_columns_of_one_record_may_come_from_different_ones(mirror):
    mirror.put(
        row("c", 1, "a", "one", "AQ=="), row("u", 1, "b", PLACEHOLDER, "Ag=="), row("u", 1, "c", "three", PLACEHOLDER)
    )
    mirror.put(row("u", 1, "d", PLACEHOLDER, PLACEHOLDER))
    assert mirror.rows == {1: of("d", "three", b"\x02")}


def test_in_a_later_batch_the_row_that_is_there_gives_the_value(mirror):
    mirror.put(row("c", 1, "a", "first"), row("c", 2, "x", "other"))
    mirror.put(row("u", 1, "b", PLACEHOLDER))
    mirror.put(row("u", 1, "c", PLACEHOLDER))
    assert mirror.rows == {1: of("c", "first"), 2: of("x", "other")}


def test_a_null_is_a_value(mirror):
    mirror.put(row("c", 1, "a", "first"))
    mirror.put(row("u", 1, "b", None), row("u", 1, "c", PLACEHOLDER))
    assert mirror.rows == {1: of("c", None)}


def test_at_the_first_sight_of_a_key_it_is_null_and_counted(by_batch):
    by_batch.put(row("u", 1, "a", PLACEHOLDER, PLACEHOLDER), row("u", 2, "x", PLACEHOLDER), row("c", 4, "y", "has"))
    assert by_batch.rows == {1: of("a", None), 2: of("x", None), 4: of("y", "has")}
    assert by_batch.unavailable == 3
    by_batch.put(row("u", 4, "z", PLACEHOLDER))
    assert by_batch.unavailable == 0


def test_a_batch_says_how_many_values_nothing_has(by_batch, monkeypatch):
    by_batch.put(row("u", 1, "a", PLACEHOLDER, PLACEHOLDER), row("c", 2, "x", "other"))
    by_batch.put(row("u", 2, "y", PLACEHOLDER))
    monkeypatch.setenv("LOCKSTEP_DSN", by_batch.dsn)
    first, second = (CliRunner().invoke(app, ["batch", number]).stdout for number in "12")
    assert "\n  2 values were in no record and no row, and are null: a snapshot fills them in\n" in first
    assert "are null" not in second


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_nothing_comes_back_from_before_a_deletion(by_batch, in_one_batch):
    before = [row("c", 1, "a", "secret"), gone(1)]
    after = [row("u", 1, "b", PLACEHOLDER)]
    if in_one_batch:
        by_batch.put(*before, *after)
    else:
        by_batch.put(*before)
        by_batch.put(*after)
    assert by_batch.rows == {1: of("b", None)}
    assert by_batch.unavailable == 1


def test_a_deletion_in_the_batch_hides_the_row_that_is_there(by_batch):
    by_batch.put(row("c", 1, "a", "secret"))
    by_batch.put(gone(1), row("u", 1, "b", PLACEHOLDER))
    assert by_batch.rows == {1: of("b", None)}
    assert by_batch.unavailable == 1


def test_a_record_that_is_a_reject_gives_no_value(mirror):
    mirror.put(row("c", 1, "a", "first"))
    mirror.put(bad(1), row("u", 1, "b", PLACEHOLDER))
    assert mirror.rows == {1: of("b", "first")}


def replayed(scene: Mirror, begin: dict[int, int], end: dict[int, int]) -> None:
    request = scene.asked("replay", begin, end)
    assert scene.on(scene.plan_request(request)) == COMMITTED
    assert isinstance(scene.plan_request(request).decision, Idle)  # it is complete, and the next one is another


def replay_some(scene: Mirror, pick: Random, most: int | None = None) -> None:
    """Replays some offsets in a row of one partition, at most so many."""
    ends = {place: part.end for place, part in enumerate(scene.log.parts) if part.end}
    part = pick.choice(sorted(ends))
    begin = pick.randrange(ends[part])
    last = min(ends[part], begin + most) if most else ends[part]
    replayed(scene, {part: begin}, {part: pick.randint(begin + 1, last)})


def test_a_replay_of_the_newest_record_keeps_what_the_row_had(mirror):
    mirror.put(row("c", 1, "a", "first"))
    mirror.put(row("u", 1, "b", PLACEHOLDER))
    part = partition(mirror, 1)
    replayed(mirror, {part: 1}, {part: 2})
    assert mirror.rows == {1: of("b", "first")}
    replayed(mirror, {part: 1}, {part: 2})
    assert mirror.rows == {1: of("b", "first")}


def test_a_replay_of_older_records_leaves_the_newer_row(mirror):
    mirror.put(row("c", 1, "a", "first"))
    mirror.put(row("u", 1, "b", PLACEHOLDER))
    mirror.put(row("u", 1, "c", "third"))
    part = partition(mirror, 1)
    for begin in (0, 1):
        replayed(mirror, {part: begin}, {part: begin + 1})
        assert mirror.rows == {1: of("c", "third")}
    replayed(mirror, {part: 0}, {part: 3})
    assert mirror.rows == {1: of("c", "third")}


def test_a_replay_of_everything_makes_the_same_rows(mirror):
    mirror.put(row("c", 1, "a", "first"), row("c", 2, "x", "other"), row("u", 1, "b", PLACEHOLDER))
    mirror.put(row("u", 1, "c", PLACEHOLDER), gone(2))
    before = mirror.rows
    ends = {number: part.end for number, part in enumerate(mirror.log.parts) if part.end}
    replayed(mirror, dict.fromkeys(ends, 0), ends)
    assert mirror.rows == before == {1: of("c", "first")}


def partition(scene: Mirror, key: int) -> int:
    (number,) = [
        number
        for number, part in enumerate(scene.log.parts)
        if any(record.key == json.dumps({"id": key}).encode() for record in part.records.values())
    ]
    return number


@pytest.mark.parametrize("seed", range(6))
def test_the_table_is_the_source_whenever_a_batch_ends(mirror, seed):
    source = CapturedTable(seed, schemas=seed % 2 == 0, flat=seed % 3 == 0, tombstones=seed % 4 != 1)
    for number in range(12):
        records = source.step()
        if not records:
            continue
        mirror.put(*records)
        assert mirror.rows == source.rows, f"step {number}"
        if number % 4 == 3:
            replay_some(mirror, source.random)
            assert mirror.rows == source.rows, f"replay behind step {number}"
