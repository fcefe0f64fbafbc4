"""Tests a key in two partitions: offsets of different streams are never compared, of records or of deletions."""

from __future__ import annotations

import pytest

from lockstep.core.errors import BadData
from lockstep.core.pipeline.definition import PerPartition
from simulation.scene import COMMITTED, Scene, told
from simulation.test_newest_of_a_key import by_key, put, ranked, wrote

MOVED = "a key was deleted in one partition and stands in another"


@pytest.fixture(params=["per batch", "per partition"])
def either(request, database, tmp_path):
    guarantee = PerPartition() if request.param == "per partition" else None
    scene = Scene(database, tmp_path, kind="keyed", guarantee=guarantee)
    yield scene
    scene.end()


def deleted_behind_many(scene) -> None:
    """Writes and deletes key a in partition 0, at offsets that partition 1 has not reached."""
    put(scene, *(("filler", n) for n in range(10)), ("a", 1))
    put(scene, ("a", None))
    assert by_key(scene) == {"filler": 9}


def test_a_key_that_was_deleted_and_is_born_in_another_partition_is_refused_by_name(either):
    deleted_behind_many(either)
    wrote(either, 1, ("a", 42), ("b", 1))

    with pytest.raises(
        BadData, match=f"{MOVED}.*name a column with order_by, or partition the topic by this key"
    ) as no:
        either.done()

    assert no.value.values == "the key is ['a']"
    assert by_key(either) == {"filler": 9}
    assert either.positions()[1] == 0


def test_a_deletion_in_another_partition_than_the_last_one_is_refused(either):
    deleted_behind_many(either)
    wrote(either, 1, ("a", None))

    with pytest.raises(BadData, match=MOVED):
        either.done()


def test_a_fill_of_another_partition_does_not_raise_the_dead_and_is_refused(either):
    put(either, ("b", 1))
    wrote(either, 1, *(("old", n) for n in range(20)), ("a", 7))
    either.skip(None)
    put(either, *(("filler", n) for n in range(10)), ("a", 1), ("a", None))

    said = either.on(either.plan_request(either.asked("fill", {1: 0}, {1: 21})))

    assert MOVED in said
    assert by_key(either) == {"b": 1, "filler": 9}


def test_a_key_that_is_born_again_in_its_own_partition_is_the_row_and_its_replay_too(either):
    deleted_behind_many(either)
    put(either, ("a", 42))
    assert by_key(either) == {"a": 42, "filler": 9}
    either.factor = 10

    assert either.on(either.plan_request(either.asked("replay", {0: 0}, {0: 13}))) == COMMITTED

    assert by_key(either) == {"a": 420, "filler": 90}
    assert either.violations() == []


def test_a_key_that_was_deleted_before_its_topic_grew_is_born_in_another_partition(either):
    deleted_behind_many(either)
    either.log.grow(1)
    either.run()
    wrote(either, 3, ("a", 42))
    either.done()
    assert by_key(either) == {"a": 42, "filler": 9}

    put(either, ("b", 1))  # and a record of the older epoch does not come before it
    assert either.on(either.plan_request(either.asked("replay", {0: 0}, {0: 12}))) == COMMITTED

    assert by_key(either) == {"a": 42, "b": 1, "filler": 9}


def test_an_older_epochs_record_stays_dead_behind_a_newer_epochs_deletion(either):
    put(either, *(("filler", n) for n in range(10)), ("a", 1))
    either.log.grow(1)
    either.run()
    wrote(either, 3, ("a", None))
    either.done()
    assert by_key(either) == {"filler": 9}

    assert either.on(either.plan_request(either.asked("replay", {0: 0}, {0: 11}))) == COMMITTED

    assert by_key(either) == {"filler": 9}


def test_with_order_by_a_deletion_of_another_partition_has_no_value_and_loses_no_record(ordered):
    ranked(ordered, 0, ("b", 1, 1))
    ordered.done()
    ordered.ask(
        "insert into lockstep.tombstone select 'public.house', jsonb_build_array('a'), min(stream_id), 11"
        " from lockstep.stream returning 1"
    )
    ranked(ordered, 1, ("a", 42, 1))

    assert told(ordered.done) == COMMITTED

    assert by_key(ordered) == {"a": 42, "b": 1}
