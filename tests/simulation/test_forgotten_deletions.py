"""Tests that a deletion is remembered as long as a record could bring its key back, and then forgotten."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import psycopg2
import pytest

from lockstep.adapters.postgres import PLANNER, connect, transaction
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.offsets import Bounds, TopicView
from lockstep.core.planning.deletions import NEWEST_OFFSET, LoggedStream, forgettable_below
from lockstep.steps.upkeep.coverage import upkeep
from lockstep.steps.upkeep.forget_deletions import forget_deletions
from simulation.scene import COMMITTED, Scene
from simulation.test_newest_of_a_key import by_key, put, wrote
from support.scenes.archived import drop_archived, put_archived

DEAD = 'select key ->> 0, "offset" from lockstep.tombstone order by 2'
STREAM = LoggedStream(7, "house.v1", 0, "c", "t", epoch=1, position=50, retired=False)
OLDER = LoggedStream(3, "house.v1", 1, "c", "t", epoch=0, position=20, retired=True)


def view(*starts: int, topic_id: str = "t") -> TopicView:
    return TopicView("c", "house.v1", topic_id, {p: Bounds(start, 100) for p, start in enumerate(starts)})


def forgotten(scene, **how: int) -> int:
    return forget_deletions(scene.at.conn, scene.at.broker.view, **how)[0]


@pytest.fixture
def deleted(keyed):
    """Writes keys a and b at 0 and 1, deletes them at 2 and 3, and writes c behind them."""
    put(keyed, ("a", 1), ("b", 1))
    put(keyed, ("a", None), ("b", None))
    put(keyed, ("c", 1))
    return keyed


def test_a_replay_cannot_raise_the_dead_before_and_the_deletion_is_gone_after(deleted):
    assert forgotten(deleted) == 0
    assert deleted.on(deleted.plan_request(deleted.asked("replay", {0: 0}, {0: 2}))) == COMMITTED
    assert by_key(deleted) == {"c": 1}

    deleted.log.trim(0, 3)
    assert forgotten(deleted) == 1
    assert deleted.ask(DEAD) == [("b", 3)]
    deleted.log.trim(0, 4)
    with closing(connect(deleted.dsn)) as conn:
        assert upkeep(conn, deleted.at.broker.view).forgotten == 1
    assert deleted.ask(DEAD) == []

    with pytest.raises(Refusal, match="begins below the log's start 4"):
        deleted.asked("replay", {0: 0}, {0: 2})
    deleted.run()
    assert by_key(deleted) == {"c": 1}
    assert deleted.violations() == []


def test_a_deletion_is_remembered_while_the_archive_holds_an_older_record(deleted):
    put_archived(deleted.at.conn, 0, 1, 3)
    deleted.log.trim(0, 5)

    assert forgotten(deleted) == 0
    drop_archived(deleted.at.conn)
    assert forgotten(deleted) == 2

    with pytest.raises(psycopg2.IntegrityError, match="archived_in_time"):
        put_archived(deleted.at.conn, 0, 4, 6)
    put_archived(deleted.at.conn, 0, 5, 6)


def test_a_deletion_is_remembered_while_a_batch_under_way_holds_an_older_record(deleted):
    attempt = deleted.validated(deleted.plan_request(deleted.asked("replay", {0: 0}, {0: 2})))
    deleted.log.trim(0, 5)  # behind the read, in front of the commit

    assert forgotten(deleted) == 0

    deleted.commit(attempt)
    assert by_key(deleted) == {"c": 1}
    assert forgotten(deleted) == 2


def test_the_database_alone_keeps_a_deletion_that_a_batch_under_way_needs(deleted):
    attempt = deleted.validated(deleted.plan_request(deleted.asked("replay", {0: 0}, {0: 2})))
    with (
        pytest.raises(psycopg2.IntegrityError, match="dead_stay_dead"),
        transaction(deleted.other.conn, PLANNER) as cur,
    ):
        cur.execute("delete from lockstep.tombstone")
    deleted.commit(attempt)
    assert by_key(deleted) == {"c": 1}


def test_a_replay_of_the_deletion_itself_takes_it_out_and_puts_it_back(deleted):
    assert deleted.on(deleted.plan_request(deleted.asked("replay", {0: 0}, {0: 4}))) == COMMITTED
    assert deleted.ask(DEAD) == [("a", 2), ("b", 3)]


def test_a_deletion_of_a_newer_epoch_is_remembered_as_long_as_an_older_epoch_can_be_read(keyed):
    put(keyed, ("a", 1))
    keyed.log.grow(1)
    keyed.run()
    wrote(keyed, 3, ("a", None), ("x", 1))
    keyed.done()
    keyed.log.trim(3, 2)

    assert forgotten(keyed) == 0
    assert keyed.on(keyed.plan_request(keyed.asked("replay", {0: 0}, {0: 1}))) == COMMITTED
    assert by_key(keyed) == {"x": 1}

    put(keyed, ("y", 1))
    keyed.log.trim(0, 1)
    assert forgotten(keyed) == 1


def test_a_run_forgets_portion_by_portion_and_no_more_than_its_share(deleted):
    put(deleted, *((f"k{n}", n) for n in range(8)), *((f"k{n}", None) for n in range(8)))
    put(deleted, ("last", 1))
    deleted.log.trim(0, deleted.log.parts[0].end)

    assert forgotten(deleted, most=2, portions=3) == 6
    assert forgotten(deleted, most=2, portions=9) == 4
    assert deleted.ask(DEAD) == []


def test_a_topic_that_cannot_be_asked_is_left_and_named(deleted):
    def away(_: str) -> TopicView:
        raise Unreachable("Kafka does not answer")

    assert forget_deletions(deleted.at.conn, away) == (0, ["house.v1: Kafka does not answer"])
    assert len(deleted.ask(DEAD)) == 2


@pytest.mark.parametrize(
    ("streams", "seen", "below", "why"),
    [
        ([STREAM], view(30), 30, "below log start nothing is read again"),
        ([STREAM, OLDER], view(30, 19), 0, "an older epoch still holds a record"),
        ([STREAM, OLDER], view(30, 20), 30, "the older epoch is wholly below log start"),
        ([STREAM, OLDER], view(30), 0, "a partition that does not answer may still hold a record"),
        ([STREAM, replace(OLDER, topic_id="gone")], view(30, 0), 30, "the older epoch was of another topic"),
        ([STREAM, replace(OLDER, topic="us.v1", topic_id="u")], view(30, 0), 30, "another topic's epochs are its own"),
        (
            [STREAM, replace(OLDER, topic="us.v1", topic_id="u", retired=False)],
            view(30),
            30,
            "another topic's log is its own",
        ),
        ([STREAM], view(30, topic_id="other"), 0, "another log than the pipeline's says nothing"),
        (
            [replace(STREAM, retired=True)],
            view(30, topic_id="other"),
            NEWEST_OFFSET,
            "a retired stream's topic is gone",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_how_far_deletions_may_be_forgotten(streams, seen, below, why):
    assert forgettable_below(streams[0], streams, seen) == below, why


def test_a_pipeline_that_is_planned_meanwhile_is_left_for_the_next_time(database, tmp_path, monkeypatch):
    monkeypatch.setattr("lockstep.steps.upkeep.forget_deletions.DELETIONS_LOCK_SECONDS", 0.2)
    scene = Scene(database, tmp_path, kind="keyed")
    put(scene, ("a", 1), ("a", None), ("b", 1))
    scene.log.trim(0, 3)
    with transaction(scene.other.conn, PLANNER) as cur:
        cur.execute("select 1 from lockstep.pipeline for no key update")
        gone, left = forget_deletions(scene.at.conn, scene.at.broker.view)
    assert gone == 0
    assert [line.partition(":")[0] for line in left] == ["house.v1-0"]
    assert forgotten(scene) == 1
    scene.end()
