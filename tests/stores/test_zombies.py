"""Tests that the store itself turns away a late delivery of an overtaken attempt, and nothing changes."""

from __future__ import annotations

import pytest

from support.scenes.here import Here


@pytest.mark.parametrize("store", ["own", "warehouse", "files"])
def test_a_zombie_that_wakes_before_its_delivery_is_turned_away_by_the_store(delivered, store):
    drill = delivered("Idempotent()", store)
    zombie = drill.fork("deliver.taken=stop")
    assert zombie.stopped()
    here = Here(drill)
    here.code = lambda value: {"id": value["id"], "n": 1_000}
    assert here.run(take_over=True).went_on
    after = drill.rows("_stream, _offset, n, _batch")

    zombie.go_on()
    outcome = zombie.wait()

    assert outcome.told["superseded"], outcome
    assert {n for _, _, n, _ in after} == {1_000}
    assert drill.rows("_stream, _offset, n, _batch") == after
    assert drill.counted() == (0, 0)


@pytest.mark.parametrize("store", ["warehouse", "files"])
def test_at_most_once_a_zombie_that_wakes_after_a_replay_doubles_nothing(delivered, store):
    drill = delivered("AtMostOnce()", store)
    zombie = drill.fork("commit.done_unacknowledged=stop")
    assert zombie.stopped()
    Here(drill).replay("1", "1")
    assert drill.counted() == (0, 0)
    after = drill.rows("_stream, _offset, _batch")

    zombie.go_on()
    outcome = zombie.wait()

    assert outcome.kind == "refused"
    assert "its results may be lost" in outcome.told["error"]
    assert drill.rows("_stream, _offset, _batch") == after


def test_a_zombie_of_the_ledger_is_refused_before_it_takes_a_row(delivered):
    drill = delivered("Idempotent()", "warehouse")
    zombie = drill.fork("validate.after=stop")
    assert zombie.stopped()
    assert Here(drill).run(take_over=True).went_on
    after = drill.rows("_stream, _offset, _batch")

    zombie.go_on()

    assert "already committed" in zombie.wait().told["superseded"]
    assert drill.rows("_stream, _offset, _batch") == after


def test_at_least_once_a_zombie_doubles_and_the_ledger_stays_whole(delivered):
    drill = delivered("AtLeastOnce()", "warehouse")
    zombie = drill.fork("deliver.taken=stop")
    assert zombie.stopped()
    assert Here(drill).run(take_over=True).went_on

    zombie.go_on()

    assert zombie.wait().told["superseded"]
    assert drill.counted() == (0, 150)
    assert len(drill.committed()) == 1
