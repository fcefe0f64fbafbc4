"""Tests that a target partitioned by batch, with attached rows, misses and doubles no record, whatever dies."""

from __future__ import annotations

import os
from functools import partial

import pytest

from simulation import machine
from simulation.alone import alone
from simulation.storm import ON_THE_WAY, REPLAYS_ONLY, storm
from simulation.world import World
from support.scenes.drill import ask


@pytest.mark.parametrize("commits", [40, pytest.param(500, marks=pytest.mark.long)])
@pytest.mark.timeout(900)
def test_a_storm_of_crashes_loses_and_doubles_nothing(database, postgres, tmp_path, commits):
    seed = int.from_bytes(os.urandom(4))
    world = partial(World, database, tmp_path, kind="by_batch")

    figures = alone(storm, world, seed, superuser=postgres, commits=commits)

    assert figures.violations == [], f"seed {seed}"
    ((parts,),) = ask(database, "select count(*) from pg_inherits where inhparent = 'public.house'::regclass")
    assert parts > 10, f"seed {seed}"
    if commits > 100:
        assert figures.points() == {*ON_THE_WAY, *REPLAYS_ONLY}, f"seed {seed}"


@pytest.mark.timeout(900)
def test_whatever_happens_in_whatever_order_every_promise_holds(database):
    alone(machine.run, database, kind="by_batch", examples=8, steps=40)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_it_holds_for_more_and_longer_ways(database):
    alone(machine.run, database, kind="by_batch", examples=100, steps=100)
