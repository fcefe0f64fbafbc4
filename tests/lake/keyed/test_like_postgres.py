"""Tests that an upserted table of the lake holds, key by key, what the same records make of a table of the database."""

from __future__ import annotations

import random

import pytest

from lake.keyed import both
from lake.keyed.both import SceneInBoth
from simulation.alone import alone
from simulation.test_one_clean_pass import in_any_order


@pytest.mark.parametrize("kind", ["keyed", pytest.param("ordered", marks=pytest.mark.long)])
def test_after_runs_replays_and_fills_in_any_order_both_tables_are_the_same(database, tmp_path, kind):
    seed = random.randrange(1 << 32)  # noqa: S311 - a seed that can be told is the point
    scene = SceneInBoth(database, tmp_path, kind=kind)
    try:
        in_any_order(scene, random.Random(seed))  # noqa: S311 - as above
        assert scene.violations() == [], f"seed {seed}"
        assert scene.figures["in lake"] > 0, f"seed {seed}"
    finally:
        scene.end()


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["keyed", "ordered"])
def test_whatever_happens_in_whatever_order_both_tables_are_the_same(database, kind):
    alone(both.run, database, kind=kind, examples=25, steps=40)
