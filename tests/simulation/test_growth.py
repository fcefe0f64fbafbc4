"""Tests that every stream of a growing topic opens a new epoch at its position, recorded in the ledger."""

from __future__ import annotations

import pytest

from lockstep.core.errors import Refusal


def test_growth_is_recorded_and_opens_an_epoch_in_every_partition(scene):
    scene.log.produce(0, 6)
    scene.done()
    scene.log.grow(1)
    scene.log.produce(3, 4)
    scene.remember()

    scene.run()

    assert scene.ask("select kind, why from lockstep.decision") == [("grow", "the topic has new partitions: 3")]
    assert scene.ask(
        "select partition, epoch, start_offset, position from lockstep.stream where retired_at is null order by 1"
    ) == [(0, 1, 6, 6), (1, 1, 0, 0), (2, 1, 0, 0), (3, 1, 0, 4)]
    assert scene.violations(least=10) == []


def test_records_of_a_new_partition_that_went_before_its_first_plan_are_a_loss_that_can_be_accepted(scene):
    scene.log.produce(0, 6)
    scene.done()
    scene.log.grow(1)
    scene.log.produce(3, 4)
    scene.log.trim(3, 3)

    blocked = scene.once()
    assert blocked["next"] == "lockstep accept-loss house --partition 3 --from 0 --until 3 --reason ..."
    assert scene.dying("accept_loss", 3, 0, 3).kind == "ok"
    scene.remember()
    scene.run()

    assert scene.ask("select kind from lockstep.decision order by decision_id") == [("grow",), ("accept-loss",)]
    assert scene.positions() == {0: 6, 1: 0, 2: 0, 3: 4}
    assert scene.violations(least=7) == []


def test_a_new_partition_is_not_opened_by_a_loss_that_is_refused(scene):
    scene.log.produce(0, 6)
    scene.done()
    scene.log.grow(1)
    scene.log.produce(3, 4)

    with pytest.raises(Refusal, match="can still be read"):
        scene.accept_loss(3, 0, 3)

    assert scene.ask("select kind from lockstep.decision") == []
    assert sorted(scene.positions()) == [0, 1, 2]


def test_a_new_partition_waits_for_the_unfinished_batch_of_the_others(scene):
    scene.log.produce(0, 6)
    scene.done()
    scene.log.produce(0, 6)
    scene.dying("once", fault="plan.committed=kill")
    scene.log.grow(1)
    scene.log.produce(3, 4)
    scene.log.trim(3, 3)

    with pytest.raises(Refusal, match="partition 3 is new, and a batch of the other partitions is unfinished"):
        scene.accept_loss(3, 0, 3)

    scene.once(take_over=True)
    scene.accept_loss(3, 0, 3)
    scene.remember()
    scene.run()
    assert scene.positions() == {0: 12, 1: 0, 2: 0, 3: 4}
    assert scene.violations(least=13) == []
