"""Drivers that die over a JVM that lives on, and over the tasks they leave in it: no record is missing, none is doubled."""

from __future__ import annotations

import os

import pytest

from house.dying_drivers import real_storm

COMMITS = int(os.environ.get("LOCKSTEP_REAL_STORM", "20"))


@pytest.mark.timeout(60 + 30 * COMMITS)
def test_a_storm_of_dying_drivers_loses_and_doubles_nothing(drill):
    seed = int.from_bytes(os.urandom(4))

    figures = real_storm(drill, seed, commits=COMMITS)

    assert figures["violations"] == [], f"seed {seed}"
    assert figures["struck"] >= COMMITS
    assert figures["figures"]["compared"] >= 30 * COMMITS
