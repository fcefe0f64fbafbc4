"""Tests drivers that die over a JVM that lives on with their tasks. No record is missing or doubled."""

from __future__ import annotations

import os

import pytest

from simulation.real_storm import a_drill, real_storm

COMMITS = int(os.environ.get("LOCKSTEP_REAL_STORM", "20"))


@pytest.mark.timeout(120 + 30 * COMMITS)
def test_a_storm_of_dying_drivers_loses_and_doubles_nothing(database, postgres, tmp_path):
    seed = int.from_bytes(os.urandom(4))

    with a_drill(database, tmp_path, "storm") as drill:
        figures = real_storm(drill, postgres, seed, commits=COMMITS)

    assert figures["violations"] == [], f"seed {seed}: {figures['happened']}"
    assert figures["struck"] >= COMMITS
    assert figures["figures"]["compared"] >= 15 * COMMITS
