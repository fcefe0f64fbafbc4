"""Tests that a target that is replayed whole under today's code equals that of one clean pass.

This holds whatever was read before, in whatever lane and order.
"""

from __future__ import annotations

import random

import psycopg2
import pytest

from lockstep.core.errors import Refusal
from simulation.machine import refuse_another_refusal
from simulation.pipeline import DDL
from simulation.scene import Scene

KINDS = ("data", "data", "data", "garbage", "deletion", "committed", "aborted")


def rows(scene) -> list[tuple]:
    """Returns the target without its batches, which alone differ between the passes."""
    with psycopg2.connect(scene.dsn) as conn, conn.cursor() as cur:
        cur.execute("select to_jsonb(h) - '_batch' from public.house h")
        return sorted(map(str, cur.fetchall()))  # type: ignore[arg-type]


def in_any_order(scene: Scene, drawn: random.Random) -> None:
    """Produces, reads, skips, fills and replays, under one code after another."""
    for _ in range(14):
        scene.factor = drawn.randint(1, 9)
        for partition in range(3):
            scene.log.produce(partition, drawn.randint(1, 9), kind=drawn.choice(KINDS))
        positions = scene.positions() or dict.fromkeys(range(3), 0)
        partition = drawn.randrange(3)
        begin = drawn.randint(0, positions[partition])
        act = drawn.choice(["run", "run", "once", "skip", "fill", "replay", "replay"])
        try:
            if act == "skip":
                scene.skip({partition: drawn.randint(positions[partition], scene.log.parts[partition].stable_end)})
            elif act in {"fill", "replay"}:
                scene.redo(act, {partition: begin}, {partition: begin + drawn.randint(1, 40)})
            else:
                getattr(scene, act)()
        except Refusal as refused:
            if act in {"fill", "replay"}:
                refuse_another_refusal(refused)


# What is late is decided once, by the plans of each history: tests/windows/test_any_order.py admits all, then compares.
# A copy of a table is compared with its source: test_unavailable.py and test_order_of_the_source.py.
@pytest.mark.parametrize("kind", sorted(DDL.keys() - {"windowed", "mirrored", "sourced"}))
def test_replayed_whole_it_is_what_one_clean_pass_gives(servers, tmp_path, kind):
    seed = random.randrange(1 << 32)  # noqa: S311 - a seed that can be told is the point
    with servers.database(f"pass_{seed}_{kind}") as one, servers.database(f"clean_{seed}_{kind}") as other:
        scene = Scene(one, tmp_path, kind=kind)
        clean = Scene(other, tmp_path, kind=kind)
        try:
            in_any_order(scene, random.Random(seed))  # noqa: S311 - as above
            scene.factor = clean.factor = 7
            scene.run()
            positions = scene.positions()
            scene.redo("fill", dict.fromkeys(positions, 0), positions)
            scene.redo("replay", dict.fromkeys(positions, 0), positions)
            clean.log.parts = scene.log.parts
            clean.run()

            assert rows(scene) == rows(clean), f"seed {seed}"
            assert rows(scene) != []
            assert scene.violations() + clean.violations() == [], f"seed {seed}"
        finally:
            scene.end()
            clean.end()
