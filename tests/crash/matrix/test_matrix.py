"""Tests that others finish the work of a dead or stopped process, once, at every point and in every lane."""

from __future__ import annotations

import os
import re

import pytest

from crash.matrix.cells import CELLS, ELSEWHERE, KINDS, LANES, ONCE, PRODUCT, points_in, strike
from lockstep.adapters import postgres
from lockstep.core.pipeline.definition import AtLeastOnce, AtMostOnce, Idempotent, PerBatch, PerPartition
from simulation.world import Followed, World

TIMES = 30
GUARANTEES = {
    "apart": Idempotent(),
    "partition": PerPartition(),
    "each": PerPartition(),
    "least": AtLeastOnce(),
    "most": AtMostOnce(),
}
ENGINE = PRODUCT.parents[1] / "tests" / "simulation" / "engine.py"


@pytest.fixture(scope="module")
def worlds(servers, tmp_path_factory, worker_id):
    """Yields `worlds(lane)`: the world of this file for that lane. A new one is made after the old has broken."""
    name = f"matrix_{worker_id}_{os.getpid()}"
    servers.drop(name)  # servers that are kept may hold one of a process that had this pid and was killed
    with servers.database(name) as dsn:
        made: list[World] = []

        def current(lane: str, *, anew: bool = False) -> World:
            way = lane.partition("_")[0]
            guarantee, kind = GUARANTEES.get(way, PerBatch()), way if way in {"two", "once", "parts"} else "appended"
            world = Followed if way in {"told", "each"} else World
            found = (type(made[-1]), made[-1].pipeline.guarantee, made[-1].kind) if made else ()
            if anew or found != (world, guarantee, kind):
                if made:
                    made.pop().close()
                made.append(world(dsn, tmp_path_factory.mktemp("matrix"), kind=kind, anew=True, guarantee=guarantee))  # type: ignore[arg-type]
                made[-1].run()  # its streams are open
            return made[-1]

        yield current
        for world in made:
            world.close()


@pytest.fixture(autouse=True)
def impatient(request, monkeypatch):
    """Shortens the wait for stopped processes. No other process stands still, except on a busy machine."""
    if "kind" in request.fixturenames and request.getfixturevalue("kind") == "stop":
        monkeypatch.setattr(postgres, "IDLE_SECONDS", 0.7)


def test_the_matrix_names_every_fault_point_of_the_code_and_no_other():
    named = points_in(*PRODUCT.rglob("*.py")) - ELSEWHERE.keys()
    assert {point for points in LANES.values() for point in points} == named
    assert points_in(ENGINE) == {point for point in named if point.startswith("task.")}


def test_each_point_meets_each_kind_in_ci():
    named = points_in(*PRODUCT.rglob("*.py")) - ELSEWHERE.keys()
    assert {(point, kind) for _, point, kind in ONCE} == {(point, kind) for point in named for kind in KINDS}


@pytest.mark.parametrize(("point", "file"), ELSEWHERE.items())
def test_a_point_of_no_lane_is_struck_by_a_test_of_its_own(point, file):
    assert re.search(rf'{point}(=|",)', (PRODUCT.parents[1] / file).read_text()), f"{file} does not strike {point}"


@pytest.mark.parametrize(("lane", "point", "kind"), ONCE)
def test_what_was_struck_is_finished_once(worlds, lane, point, kind):
    found = strike(worlds(lane), lane, point, kind)
    if found:
        worlds(lane, anew=True)
    assert found == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("lane", "point", "kind"), CELLS)
def test_what_was_struck_is_finished_once_each_of_many_times(worlds, lane, point, kind):
    world = worlds(lane, anew=True)
    found = [what for _ in range(TIMES) for what in strike(world, lane, point, kind)]
    assert found == []
