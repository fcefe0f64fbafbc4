"""Tests the named faults one at a time: a cut log, a new deployment, a ledger that goes back in time."""

from __future__ import annotations

import os

import pytest

from lockstep.core.pipeline.definition import PerPartition
from simulation.deployment import CHANGES, TASKS
from simulation.faults import FAULTS
from simulation.liveness import progress
from simulation.scene import Scene
from simulation.storm import AFTER_THE_COMMIT, BY_PARTITION, IN_RANGES, ON_THE_WAY, REPLAYS_ONLY, Storm
from simulation.timeline import Timeline, swapped_under
from simulation.world import World


def switched_on(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(name not in FAULTS, reason=f"LOCKSTEP_HOUSE_FAULTS does not name {name}")


COMMITS = 100


@pytest.fixture
def timeline(postgres, database):
    made = Timeline(postgres, database)
    yield made
    made.end()


@pytest.mark.long
@pytest.mark.skipif(not {"truncation", "regrowth"} & FAULTS, reason="LOCKSTEP_HOUSE_FAULTS names neither")
@pytest.mark.parametrize("kind", ["appended", "keyed"])
@pytest.mark.timeout(900)
def test_a_storm_over_a_log_that_is_cut_and_grows_again_loses_and_doubles_nothing(database, tmp_path, kind):
    seed = int.from_bytes(os.urandom(4))
    storm = Storm(World(database, tmp_path, kind=kind), seed)
    storm.truncations = 6

    figures = storm.rage(commits=COMMITS)

    assert figures.violations == [], f"seed {seed}"
    assert storm.world.log.truncations > 0, f"seed {seed}"


@switched_on("deployment")
@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("task", TASKS)
def test_another_folder_than_the_one_that_staged_commits_nothing(scene, task, what):
    scene.log.produce(0, 20)
    scene.run()
    scene.log.produce(0, 20)

    outcome = scene.dying("deployed", task, what)

    assert outcome.kind == "refused", outcome
    assert not outcome.told.get("committed")
    assert progress(scene, scene.dying) == []
    scene.dying("reap")
    assert scene.violations(rest=True, least=40) == []


@switched_on("timeline")
@pytest.mark.parametrize("point", ON_THE_WAY[2:])
def test_an_attempt_of_a_lost_timeline_commits_nothing(database, tmp_path, timeline, point):
    world = Scene(database, tmp_path)
    world.log.produce(0, 20)
    world.run()
    world.end()
    timeline.keep()
    world.log.produce(0, 20)

    assert swapped_under(world, timeline, point, is_committed=point in AFTER_THE_COMMIT) == []

    assert progress(world, world.dying) == []
    world.dying("reap")
    assert world.violations(rest=True, least=40) == []
    world.close()


@pytest.mark.long
@switched_on("timeline")
@pytest.mark.parametrize("kind", ["appended", "keyed"])
@pytest.mark.parametrize("point", BY_PARTITION[2:])
def test_per_partition_an_attempt_of_a_lost_timeline_commits_no_range(database, tmp_path, timeline, point, kind):
    world = World(database, tmp_path, kind=kind, guarantee=PerPartition())
    world.log.produce(0, 20)
    world.dying("once")
    world.close()
    timeline.keep()
    world.log.produce(0, 20)
    world.log.produce(1, 20)

    assert swapped_under(world, timeline, point, is_committed=point in AFTER_THE_COMMIT) == []

    assert progress(world, world.dying) == []
    world.dying("reap")
    assert world.violations(rest=True, least=world.least_rows(60)) == []
    world.close()


@pytest.mark.long
@switched_on("timeline")
@pytest.mark.parametrize("guarantee", [None, PerPartition()], ids=["per batch", "per partition"])
@pytest.mark.parametrize("kind", ["appended", "keyed"])
@pytest.mark.parametrize("point", [*ON_THE_WAY[2:], *IN_RANGES, *REPLAYS_ONLY, "commit.closed"])
def test_a_replay_of_a_lost_timeline_commits_nothing(database, tmp_path, timeline, point, kind, guarantee):
    passes = BY_PARTITION if guarantee else (*ON_THE_WAY, *REPLAYS_ONLY)
    if point not in passes:
        pytest.skip("a replay under this guarantee does not pass here")
    world = World(database, tmp_path, kind=kind, guarantee=guarantee)
    world.log.produce(0, 20)
    world.log.produce(1, 20)
    world.dying("once")
    world.close()
    timeline.keep()
    world.factor = 3  # what the lost replay makes of a record is seen in its row

    replay = ("redo", "replay", {0: 0, 1: 0}, {0: 20, 1: 20})
    committed = point in AFTER_THE_COMMIT
    assert swapped_under(world, timeline, point, *replay, is_committed=committed, take_over=True) == []

    world.factor = 1
    assert progress(world, world.dying) == []
    world.dying("reap")
    assert world.violations(rest=True, least=world.least_rows(40)) == []
    world.close()


@pytest.mark.long
@switched_on("timeline")
@pytest.mark.timeout(900)
def test_a_storm_in_which_the_ledger_goes_back_in_time_loses_and_doubles_nothing(database, tmp_path, timeline):
    seed = int.from_bytes(os.urandom(4))
    storm = Storm(World(database, tmp_path), seed)
    storm.timeline = timeline
    storm.truncations = 4

    figures = storm.rage(commits=COMMITS, look_every=15)

    assert figures.violations == [], f"seed {seed}"
    assert figures.acts["swap"] > 0, f"seed {seed}"
    assert storm.world.log.truncations > 0, f"seed {seed}"
