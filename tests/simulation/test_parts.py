"""Tests that parts of a table by batch, which commits attach and upkeep merges, miss and double no record, whatever dies."""

from __future__ import annotations

import os
from functools import partial

import pytest

from simulation import machine
from simulation.alone import alone
from simulation.storm import IN_PARTS, storm
from simulation.world import World
from support.scenes.drill import ask

KINDS = """select relkind::text from pg_class c join pg_inherits i on i.inhrelid = c.oid
    where i.inhparent = 'public.house'::regclass"""


@pytest.mark.long
@pytest.mark.parametrize("commits", [15, 500])
@pytest.mark.timeout(3600)
def test_a_storm_of_crashes_loses_and_doubles_nothing(database, postgres, tmp_path, commits):
    seed = int.from_bytes(os.urandom(4))
    world = partial(World, database, tmp_path, kind="parts")

    figures = alone(storm, world, seed, points=IN_PARTS, superuser=postgres, commits=commits)

    assert figures.violations == [], f"seed {seed}"
    assert ask(database, "select count(*) > 0 from lockstep.part") == [(True,)]
    if commits > 100:
        assert figures.points() == {*IN_PARTS}, f"seed {seed}"
        assert {kind for (kind,) in ask(database, KINDS)} == {"r", "p"}, f"seed {seed}"


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_whatever_happens_in_whatever_order_every_promise_holds(database):
    alone(machine.run, database, kind="parts", examples=60, steps=50)
