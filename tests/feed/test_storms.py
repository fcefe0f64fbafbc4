"""Tests that a feed has no gap and, folded, is its table, whatever dies and in whatever order."""

from __future__ import annotations

import os
from functools import partial

import pytest

from lockstep.core.pipeline.definition import PerBatch, PerPartition
from simulation.alone import alone
from simulation.storm import BY_PARTITION, ON_THE_WAY, REPLAYS_ONLY, storm
from simulation.world import Followed
from support.scenes.drill import ask

OF_FEEDS = ("changes.opened", "changes.netted", "changes.numbered")
KINDS = [
    ("keyed", PerBatch()),
    ("accumulated", PerBatch()),
    ("appended", PerPartition()),
    ("appended", PerBatch()),
    ("two", PerBatch()),
    ("keyed", PerPartition()),
    ("versions", PerBatch()),
    ("versions", PerPartition()),
]
NAMES = [f"{kind}-{type(guarantee).__name__}" for kind, guarantee in KINDS]


@pytest.mark.parametrize(("kind", "guarantee"), KINDS[:3], ids=NAMES[:3])
@pytest.mark.timeout(900)
def test_a_storm_of_crashes_leaves_no_gap_and_the_folded_feed_is_the_table(
    database, postgres, tmp_path, kind, guarantee
):
    seed = int.from_bytes(os.urandom(4))
    points = (*OF_FEEDS, *(BY_PARTITION if guarantee == PerPartition() else ON_THE_WAY + REPLAYS_ONLY))
    world = partial(Followed, database, tmp_path, kind=kind, guarantee=guarantee)

    figures = alone(storm, world, seed, points=points, superuser=postgres, commits=10)

    assert figures.violations == [], f"seed {seed}"
    ((sets, changes),) = ask(database, "select max(last_seq), max(next_number) from lockstep.feed")
    assert sets > 10, f"seed {seed}"
    assert changes > 10, f"seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize(("kind", "guarantee"), KINDS, ids=NAMES)
@pytest.mark.timeout(7200)
def test_a_longer_storm_strikes_every_point(database, postgres, tmp_path, kind, guarantee):
    seed = int.from_bytes(os.urandom(4))
    points = (*OF_FEEDS, *(BY_PARTITION if guarantee == PerPartition() else ON_THE_WAY + REPLAYS_ONLY))
    world = partial(Followed, database, tmp_path, kind=kind, guarantee=guarantee)

    figures = alone(storm, world, seed, points=points, superuser=postgres, commits=300)

    assert figures.violations == [], f"seed {seed}"
    assert set(OF_FEEDS) <= figures.points(), f"seed {seed}"
