"""Tests that no older version of a key returns when today's code refuses a record that was accepted before."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from lake.keyed.both import SceneInBoth
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.definition import PerPartition
from simulation.scene import Scene
from simulation.test_newest_of_a_key import by_key, put, wrote

if TYPE_CHECKING:
    from simulation.world import World

PLACES: dict[str, Any] = {
    "per batch": partial(Scene, kind="keyed"),
    "per partition": partial(Scene, kind="keyed", guarantee=PerPartition()),
    "lake": partial(SceneInBoth, kind="keyed"),
}


@pytest.fixture(params=PLACES)
def keyed(request, database, tmp_path):
    scene = PLACES[request.param](database, tmp_path)
    yield scene
    scene.end()


def replay(scene: World, begin: int, end: int) -> None:
    """Replays these offsets of partition 0."""
    scene.redo("replay", {0: begin}, {0: end}, take_over=True)


def refuse(scene: World, n: int) -> None:
    """Lets the code of the day reject the records of this number."""
    scene.refuses = lambda record: record["n"] == n


def test_a_deletion_that_is_replayed_under_a_newer_row_is_remembered(keyed):
    for n in (5, None, 7):
        put(keyed, ("a", n))
    replay(keyed, 1, 2)
    refuse(keyed, 7)
    replay(keyed, 2, 3)
    assert by_key(keyed) == {}  # an earlier version is not brought back

    replay(keyed, 0, 1)

    assert by_key(keyed) == {}


def test_a_deletion_that_is_filled_under_a_newer_row_is_remembered(keyed):
    put(keyed, ("a", 5))
    wrote(keyed, 0, ("a", None))
    keyed.skip({0: 2})
    put(keyed, ("a", 7))
    keyed.redo("fill", None, None, take_over=True)
    refuse(keyed, 7)
    replay(keyed, 2, 3)

    replay(keyed, 0, 1)

    assert by_key(keyed) == {}


def test_a_deletion_with_a_newer_record_in_its_batch_is_remembered(keyed):
    put(keyed, ("a", 5))
    put(keyed, ("a", None), ("a", 7))

    assert {*keyed.ask('select "offset" from lockstep.tombstone')} == {(1,)}


def test_an_older_deletion_that_is_replayed_takes_no_place_of_a_later_one(keyed):
    for n in (5, None, 6, None):
        put(keyed, ("a", n))
    replay(keyed, 1, 2)

    replay(keyed, 2, 3)

    assert by_key(keyed) == {}
    assert {*keyed.ask('select "offset" from lockstep.tombstone')} == {(3,)}


def test_whatever_is_refused_and_replayed_in_whatever_order_no_deleted_version_returns(keyed):
    seed = random.randrange(1 << 32)  # noqa: S311 - a seed that can be told is the point
    rng = random.Random(seed)  # noqa: S311 - as above
    for _ in range(40):
        somebody_acts(keyed, rng)
        assert raised_from_the_dead(keyed) == [], f"seed {seed}"
    keyed.refuses = None

    keyed.run(take_over=True)
    keyed.redo("replay", None, None, take_over=True)

    assert keyed.violations() == [], f"seed {seed}"


def somebody_acts(scene: World, rng: random.Random) -> None:
    """Produces, runs, replays a range, or deploys code that refuses other records."""
    ends = [part.end for part in scene.log.parts]
    partition = rng.randrange(3)
    low, high = sorted((rng.randint(0, ends[partition]), rng.randint(0, ends[partition])))
    act = rng.choice(["produce", "run", "refuse", "replay", "replay", "replay"])
    match act:
        case "produce":
            scene.log.produce(partition, rng.randint(1, 6), kind=rng.choice(["data", "data", "deletion"]), keys=3)
        case "run":
            scene.run(take_over=True)
        case "refuse":
            one_of, rest = rng.choice([2, 3, 4]), rng.randrange(2)
            scene.refuses = lambda record: record["uid"] % one_of == rest
        case "replay" if low < high:
            with suppress(Refusal):  # nothing was planned there yet
                scene.redo("replay", {partition: low}, {partition: high}, take_over=True)


def raised_from_the_dead(scene: World) -> list[str]:
    """Names rows whose key was deleted by a later record that was read."""
    positions = scene.positions()
    deleted = {
        (partition, record.key.decode()): offset
        for partition, part in enumerate(scene.log.parts)
        for offset, record in sorted(part.visible(0, positions.get(partition, 0)).items())
        if record.value is None
    }
    rows = scene.ask("select partition, id, _offset from public.house join lockstep.stream on stream_id = _stream")
    return [f"{key} at {offset}" for partition, key, offset in rows if deleted.get((partition, key), -1) > offset]
