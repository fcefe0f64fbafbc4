"""A topic that grows: every stream opens a new epoch at its position, and the ledger says so."""

from __future__ import annotations


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
