"""Tests that totals are those of the owned records, each counted once, whatever dies and in whatever order."""

from __future__ import annotations

import os
from functools import partial

import pytest

from simulation import machine
from simulation.alone import alone
from simulation.storm import storm
from simulation.world import World


@pytest.mark.timeout(900)
def test_a_storm_of_crashes_loses_and_doubles_nothing(database, postgres, tmp_path):
    seed = int.from_bytes(os.urandom(4))
    world = partial(World, database, tmp_path, kind="accumulated")

    figures = alone(storm, world, seed, superuser=postgres, commits=110)

    assert figures.violations == [], f"seed {seed}"
    assert figures.committed >= 110


@pytest.mark.timeout(900)
def test_whatever_happens_in_whatever_order_every_promise_holds(database):
    alone(machine.run, database, kind="accumulated", examples=8, steps=40)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_it_holds_for_more_and_longer_ways(database):
    alone(machine.run, database, kind="accumulated", examples=100, steps=100)
