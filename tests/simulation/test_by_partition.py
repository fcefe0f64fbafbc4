"""Tests that tasks that commit range by range miss and double no record, whatever happens in whatever order."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial

import pytest

from lockstep.core.errors import BadData
from lockstep.core.pipeline.definition import PerBatch, PerPartition
from simulation import machine
from simulation.alone import alone
from simulation.scene import COMMITTED, Scene, told
from simulation.storm import BY_PARTITION, storm
from simulation.world import World


@pytest.mark.parametrize("kind", ["appended", pytest.param("keyed", marks=pytest.mark.long)])
@pytest.mark.timeout(900)
def test_a_storm_of_crashes_loses_and_doubles_nothing(database, postgres, tmp_path, kind):
    seed = int.from_bytes(os.urandom(4))
    world = partial(World, database, tmp_path, kind=kind, guarantee=PerPartition())

    figures = alone(storm, world, seed, points=BY_PARTITION, superuser=postgres, commits=20)

    assert figures.violations == [], f"seed {seed}"


def test_a_batch_is_closed_although_a_replay_has_taken_its_ranges_over(database, tmp_path):
    with closing(Scene(database, tmp_path, guarantee=PerPartition())) as scene:
        scene.log.produce(0, 4)
        scene.log.produce(0, 3, kind="garbage")
        live = scene.staged(scene.plan())  # its ranges are committed, and the batch is not closed
        assert scene.ask("select batch_id, count(*) from lockstep.reject group by 1") == [(live.batch_id, 3)]

        replayed = scene.validated(scene.plan_request(scene.asked("replay", {0: 0})))
        scene.commit(replayed)
        assert scene.ask("select batch_id, count(*) from lockstep.reject group by 1") == [(replayed.batch_id, 3)]

        assert told(lambda: scene.validate(live)) == COMMITTED
        scene.commit(live)
        assert scene.ask("select state from lockstep.batch") == [("committed",)] * 2
        assert scene.violations() == []


def test_a_batch_whose_rejects_are_gone_is_not_closed(database, tmp_path):
    with closing(Scene(database, tmp_path, guarantee=PerPartition())) as scene:
        scene.log.produce(0, 3, kind="garbage")
        live = scene.staged(scene.plan())
        scene.ask("delete from lockstep.reject")
        with pytest.raises(BadData, match=r"-0: batch 1 recorded 3 rejects, 0 are there"):
            scene.validate(live)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["appended", "keyed"])
@pytest.mark.timeout(7200)
def test_a_longer_storm_strikes_every_point(database, postgres, tmp_path, kind):
    seed = int.from_bytes(os.urandom(4))
    world = partial(World, database, tmp_path, kind=kind, guarantee=PerPartition())

    figures = alone(storm, world, seed, points=BY_PARTITION, superuser=postgres, commits=500)

    assert figures.violations == [], f"seed {seed}"
    assert figures.points() == {*BY_PARTITION}, f"seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["appended", "keyed"])
@pytest.mark.timeout(7200)
def test_whatever_happens_in_whatever_order_every_promise_holds(database, kind):
    alone(machine.run, database, kind=kind, guarantee=PerPartition(), examples=100, steps=50)


@pytest.mark.parametrize("guarantee", [PerBatch(), PerPartition()], ids=repr)
def test_a_preview_finishes_no_replay_that_another_process_has_left(database, tmp_path, guarantee):
    with closing(Scene(database, tmp_path, guarantee=guarantee)) as scene:
        for partition in (0, 1):
            scene.log.produce(partition, 4)
        scene.done()
        begin, end = {0: 0, 1: 0}, {0: 4, 1: 4}
        point = "range.done_unacknowledged" if guarantee == PerPartition() else "stage.done"
        assert scene.dying("redo", "replay", begin, end, fault=f"{point}=kill").kind == "killed"
        committed = scene.ask("select batch_id, stream_id, token from lockstep.commit order by 1, 2")
        scene.leases_run_out()

        found = scene.living_on("preview", begin)

        assert (found.kind, found.told["decision"]) == ("ok", "Blocked"), found
        assert scene.ask("select batch_id, stream_id, token from lockstep.commit order by 1, 2") == committed
        assert scene.ask("select state from lockstep.batch where batch_id = 2") == [("planned",)]
        left = scene.ask("select preview, closed_at is null from lockstep.request order by request_id")
        assert left == [(False, True), (True, False)]
        scene.end_requests()
        assert scene.ask("select state from lockstep.batch where batch_id = 2") == [("committed",)]
        assert scene.preview(begin)["unchanged"] == 8
        assert scene.violations() == []
