"""Tests that tasks that commit range by range miss and double no record, whatever happens in whatever order."""

from __future__ import annotations

import os
from functools import partial

import pytest

from lockstep.core.pipeline.definition import PerPartition
from simulation import machine
from simulation.alone import alone
from simulation.storm import BY_PARTITION, storm
from simulation.world import World


@pytest.mark.parametrize("kind", ["appended", pytest.param("keyed", marks=pytest.mark.long)])
@pytest.mark.timeout(900)
def test_a_storm_of_crashes_loses_and_doubles_nothing(database, postgres, tmp_path, kind):
    seed = int.from_bytes(os.urandom(4))
    world = partial(World, database, tmp_path, kind=kind, guarantee=PerPartition())

    figures = alone(storm, world, seed, points=BY_PARTITION, superuser=postgres, commits=20)

    assert figures.violations == [], f"seed {seed}"


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
