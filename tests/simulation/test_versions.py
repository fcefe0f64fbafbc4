"""Tests that a history holds every version of a key, each until the next one begins, whatever lane brings its record."""

from __future__ import annotations

from datetime import timedelta

import pytest

from simulation import machine
from simulation.alone import alone
from simulation.log import BEGINNING, Record
from simulation.scene import COMMITTED, Scene, told

VERSIONS = "select id, n, valid_from, valid_until, _deleted from public.house order by id, valid_from, _offset"


@pytest.fixture
def scene(database, tmp_path):
    scene = Scene(database, tmp_path, kind="versions")
    yield scene
    scene.end()


def at(second: int):
    return BEGINNING + timedelta(seconds=second)


def wrote(scene, *records: tuple[str, int | None, int], partition: int = 0) -> None:
    """Writes records (key, n, second) of a partition. Without n, a record is a deletion."""
    part = scene.log.parts[partition]
    for key, n, second in records:
        value = None if n is None else b'{"id": "%s", "n": %d}' % (key.encode(), n)
        part.records[part.end] = Record(key.encode(), value, at(second))
        part.end = part.stable_end = part.end + 1


def put(scene, *records: tuple[str, int | None, int]) -> None:
    wrote(scene, *records)
    scene.done()


def test_each_version_ends_where_the_next_begins_and_a_deletion_ends_the_last(scene):
    put(scene, ("a", 1, 10), ("b", 1, 11), ("a", 2, 20))
    put(scene, ("a", 3, 30), ("b", None, 31))

    assert scene.ask(VERSIONS) == [
        ("a", 1, at(10), at(20), False),
        ("a", 2, at(20), at(30), False),
        ("a", 3, at(30), None, False),
        ("b", 1, at(11), at(31), False),
        ("b", None, at(31), at(31), True),
    ]
    assert scene.violations() == []


@pytest.mark.parametrize("kind", ["versions", "dated"])
@pytest.mark.timeout(900)
def test_whatever_happens_in_whatever_order_every_promise_holds(database, kind):
    alone(machine.run, database, kind=kind, examples=3, steps=40)
