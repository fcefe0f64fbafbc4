"""Tests that rows which are hidden until their commit are missed, doubled and shown early by nobody, whatever dies."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

import pytest

from lockstep.core.pipeline.definition import Append
from simulation import machine
from simulation.alone import alone
from simulation.onlooker import Onlooker
from simulation.scene import COMMITTED, Scene, told
from simulation.storm import WRITTEN_ONCE, storm
from simulation.world import World
from support.scenes.drill import ask


@pytest.mark.parametrize("commits", [15, pytest.param(500, marks=pytest.mark.long)])
@pytest.mark.timeout(3600)
def test_a_storm_of_crashes_loses_and_doubles_nothing(database, postgres, tmp_path, commits):
    seed = int.from_bytes(os.urandom(4))
    world = partial(World, database, tmp_path, kind="once")

    with Onlooker(database) as reader:
        figures = alone(storm, world, seed, points=WRITTEN_ONCE, superuser=postgres, commits=commits)

    print(f"seed {seed}: {figures.committed} batches, {reader.looks} looks, {reader.beside} of them beside a commit")
    assert figures.violations == [], f"seed {seed}"
    assert reader.faults == [], f"seed {seed}"
    assert reader.beside, f"seed {seed}: nothing was committed beside {reader.looks} looks"
    assert ask(database, "select count(*) > 0 from lockstep.landed") == [(True,)]
    if commits > 100:
        cut = "select count(*) > 0 from lockstep.landed l join lockstep.batch_range r using (batch_id, stream_id)"
        assert ask(database, f"{cut} where l.offsets <> r.offsets") == [(True,)]
        assert figures.points() == {*WRITTEN_ONCE}, f"seed {seed}"
        assert ask(
            database,
            "select count(*) from lockstep.hidden_batch h join lockstep.batch using (batch_id) "
            "where state = 'committed'",
        ) == [(0,)]


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_whatever_happens_in_whatever_order_every_promise_holds(database):
    alone(machine.run, database, kind="once", examples=60, steps=50)


def test_rows_of_an_abandoned_batch_are_cleared_behind_a_second_target(database, tmp_path):
    scene = Scene(database, tmp_path, kind="once")
    scene.log.produce(0, 20)
    scene.staged(scene.plan())
    scene.abandon()
    assert scene.ask("select count(*) from public.house_rows") == [(20,)]
    scene.ask("""reset role; create table public.house_second (like public.house_rows including all);
        alter table public.house_second owner to lockstep_targets;
        grant select, insert, delete on public.house_second to lockstep_committer, lockstep_reader, lockstep_owner;
        select 1""")
    targets = (Append("public.house_second"), Append("public.house"))
    scene.pipeline = replace(scene.pipeline, target=targets)
    scene.folder = replace(scene.folder, pipeline=scene.pipeline)

    assert told(lambda: scene.run(take_over=True)) == COMMITTED

    assert scene.ask("select count(*), count(distinct _offset) from public.house") == [(20, 20)]
    scene.end()
