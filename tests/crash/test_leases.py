"""Tests liveness: two schedulers never block each other for ever, and the remains of the dead are swept away."""

from __future__ import annotations

import pytest

from simulation.world import World

RECORDS_A_BATCH, BATCHES = 12, 8


@pytest.fixture
def world(database, tmp_path):
    made = World(database, tmp_path, records=RECORDS_A_BATCH)
    for partition in range(3):
        made.log.produce(partition, RECORDS_A_BATCH * BATCHES // 3)
    yield made
    made.close()


@pytest.mark.parametrize("take_over", [False, True], ids=["each waits", "each takes over"])
def test_two_schedulers_come_to_the_end_in_as_many_rounds_as_there_are_batches(world, take_over):
    rounds = 0
    while world.ask("select count(*) from lockstep.batch where state = 'committed'") != [(BATCHES,)]:
        rounds += 1
        assert rounds <= BATCHES, "a round went by in which neither came on"
        both = [world.start("once", owner=who, key=f"{who}-{rounds}", take_over=take_over) for who in ("east", "west")]
        for said in [child.wait() for child in both]:
            assert said.kind == "ok", said

    world.dying("reap")
    assert world.ask("select count(distinct token), count(distinct batch_id) from lockstep.commit") == [(BATCHES,) * 2]
    assert world.violations(rest=True) == []
    assert world.drained() == []


def test_a_copy_whose_client_stands_still_is_ended_by_reap_and_its_table_swept_away(world):
    zombie = world.start("once", fault="task.copy_mid=stop")
    assert zombie.stopped()
    world.dying("run", take_over=True)

    assert world.reap()["dropped"] >= 1

    assert world.ask("select tablename from pg_tables where schemaname = 'lockstep_staging'") == []
    zombie.go_on()
    assert zombie.wait().kind in {"ok", "refused"}
    assert world.violations(rest=True) == []
