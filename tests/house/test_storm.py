"""Whoever dies, whatever is done: no record is missing, none is doubled, and nothing is said that is not so."""

from __future__ import annotations

import os

import pytest

from house.storm import ON_THE_WAY, REPLAYS_ONLY, Storm
from house.world import World

COMMITS = int(os.environ.get("LOCKSTEP_STORM", "500"))


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "upsert"])
@pytest.mark.timeout(900)
def test_a_storm_of_crashes_loses_and_doubles_nothing(database, tmp_path, keyed):
    seed = int.from_bytes(os.urandom(4))
    storm = Storm(World(database, tmp_path, keyed=keyed), seed)

    figures = storm.rage(COMMITS)

    assert figures.violations == [], f"seed {seed}"
    assert len(storm.committed_and_struck()) >= COMMITS
    assert figures.points() == {*ON_THE_WAY, *REPLAYS_ONLY}, f"seed {seed}"
