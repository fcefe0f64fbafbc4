"""Tests that no record of a keyed target is missing or doubled, whatever dies and in whatever order."""

from __future__ import annotations

import os
from functools import partial

import pytest

from simulation import machine
from simulation.alone import alone
from simulation.storm import ON_THE_WAY, REPLAYS_ONLY, storm
from simulation.world import World


@pytest.mark.timeout(900)
@pytest.mark.parametrize("commits", [100, pytest.param(300, marks=pytest.mark.long)])
def test_a_storm_of_crashes_loses_and_doubles_nothing(database, postgres, tmp_path, commits):
    seed = int.from_bytes(os.urandom(4))
    world = partial(World, database, tmp_path, kind="keyed")

    figures = alone(storm, world, seed, superuser=postgres, commits=commits)

    assert figures.violations == [], f"seed {seed}"
    assert figures.committed >= commits
    if commits < 300:  # too few to come by every point: the storm of appended rows does, and so does the long one
        return
    assert figures.points() == {*ON_THE_WAY, *REPLAYS_ONLY}, f"seed {seed}"
    happened = (figures.truncations, figures.acts["deployed"], figures.acts["swap"])
    assert all(happened), f"seed {seed}: of truncations, deployments and swaps there were {happened}"


@pytest.mark.timeout(900)
def test_whatever_happens_in_whatever_order_every_promise_holds(database):
    alone(machine.run, database, kind="keyed", examples=10, steps=50)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_it_holds_for_more_and_longer_ways(database):
    alone(machine.run, database, kind="keyed", examples=100, steps=100)
