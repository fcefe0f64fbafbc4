"""The newest record of a key is its row, whichever lane comes last."""

from __future__ import annotations

from house.log import BEGINNING, Record
from house.scene import COMMITTED


def put(scene, *records: tuple[str, int | None]) -> None:
    """Records of partition 0, and a batch that reads them."""
    part = scene.log.parts[0]
    for key, n in records:
        value = None if n is None else b'{"id": "%s", "n": %d}' % (key.encode(), n)
        part.records[part.end] = Record(key.encode(), value, BEGINNING)
        part.end = part.stable_end = part.end + 1
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
