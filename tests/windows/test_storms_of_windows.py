"""Tests that windows stay whole, whatever dies and in whatever order."""

from __future__ import annotations

import os
from functools import partial

import pytest

from simulation.alone import alone
from simulation.storm import ON_THE_WAY, REPLAYS_ONLY, storm
from simulation.world import Followed, World
from support.scenes.drill import ask

OF_WINDOWS = ("windows.judged", "emit.read", "emit.raised", "emit.written", "emit.numbered", "emit.unacknowledged")
OF_FEEDS = ("changes.opened", "changes.netted", "changes.numbered")


@pytest.mark.parametrize("kind", [World, Followed], ids=["alone", "with a feed"])
@pytest.mark.timeout(900)
def test_a_storm_of_crashes_leaves_each_row_counted_or_late(database, postgres, tmp_path, kind):
    seed = int.from_bytes(os.urandom(4))
    points = (*OF_WINDOWS, *(OF_FEEDS if kind is Followed else ()), *ON_THE_WAY, *REPLAYS_ONLY)
    world = partial(kind, database, tmp_path, kind="windowed")

    figures = alone(storm, world, seed, points=points, superuser=postgres, commits=20)

    assert figures.violations == [], f"seed {seed}"
    ((windows, shown),) = ask(
        database, "select count(*), count(*) filter (where revision > 0) from lockstep.window_state"
    )
    assert windows > 10, f"seed {seed}"
    assert shown > 0, f"seed {seed}"


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_longer_storm_strikes_every_point_of_windows(database, postgres, tmp_path):
    seed = int.from_bytes(os.urandom(4))
    points = (*OF_WINDOWS, *OF_FEEDS, *ON_THE_WAY, *REPLAYS_ONLY)
    world = partial(Followed, database, tmp_path, kind="windowed")

    figures = alone(storm, world, seed, points=points, superuser=postgres, commits=300)

    assert figures.violations == [], f"seed {seed}"
    assert set(OF_WINDOWS) <= figures.points(), f"seed {seed}"
