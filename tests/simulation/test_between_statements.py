"""Tests that a run ends in an answer, and loses and doubles nothing, whatever happens between two of its statements."""

from __future__ import annotations

import os
import random
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from psycopg2.extras import NamedTupleCursor

from lockstep.core.pipeline.definition import PerPartition
from lockstep.core.planning.decisions import Caller
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from simulation.child import Outcome
from simulation.liveness import here, progress
from simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

STRIDE = int(os.environ.get("LOCKSTEP_STRIDE", "13"))  # statements from one place to the next, on average
IN_THE_WAY = "50ms"  # whoever acts in between waits no longer for a lock: who holds it waits, too


class Between:
    """Another actor, who acts once, right before the next `place`-th statement."""

    def __init__(self, monkeypatch, act) -> None:
        self.said: Outcome | None = None
        self._act = act
        self._left = 0
        self._acts = False
        execute = NamedTupleCursor.execute

        def executed(cur, query, values=None):
            if self._acts and isinstance(values, dict) and "lock" in values:
                values = values | {"lock": IN_THE_WAY}
            self._count()
            return execute(cur, query, values)

        monkeypatch.setattr(NamedTupleCursor, "execute", executed)

    def at(self, place: int) -> None:
        """Sets the place, or none (0)."""
        self._left, self.said = place, None

    def _count(self) -> None:
        if self._acts or not self._left:
            return
        self._left -= 1
        if not self._left:
            self._acts = True
            self.said = Outcome.of(self._act)
            self._acts = False


def begins(world: World) -> dict:
    """Another run takes the batch over and gets no further than its staging."""
    with world._at() as at:  # noqa: SLF001 - an act of its own
        who = Caller("another", take_over=True)
        planned = plan(at.conn, at.broker, world.folder, who, datetime.now(UTC))
        if planned.batch_id is not None:
            stage(at, world._engine(), world.folder, planned.batch_id, who)  # noqa: SLF001
        return {}


def cuts_sessions(world: World) -> None:
    world.ask(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and usename = user"
    )


def recreates(world: World) -> None:
    world.remember()
    world.log.recreate()
    world.log.produce(0, 3)


ACTS = {
    "takes over": lambda world: world.once(owner="another", take_over=True),
    "begins": begins,
    "abandons": lambda world: world.abandon(),
    "skips": lambda world: world.skip({0: world.log.parts[0].stable_end}),
    "replays": lambda world: world.redo("replay", {0: 0}, {0: 10}, owner="another", take_over=True),
    "keeps up": lambda world: world.reap(),
    "deletes records": lambda world: world.log.trim(0, world.log.parts[0].stable_end - 1),
    "adds a partition": lambda world: world.log.grow(1),
    "recreates the topic": recreates,
    "cuts sessions": cuts_sessions,
}
KINDS = {
    "appended": ("appended", None),
    "by partition": ("appended", PerPartition()),
    "written once": ("once", None),
    "keyed": ("keyed", None),
    "keyed by partition": ("keyed", PerPartition()),
    "by batch": ("by_batch", None),
    "parts": ("parts", None),
    "totals": ("accumulated", None),
    "history": ("versions", None),
    "two": ("two", None),
}
RUNS = {
    "live": lambda world: world.once(take_over=True),
    "replay": lambda world: world.redo("replay", {0: 0, 1: 0}, {0: 10, 1: 10}, take_over=True),
    "preview": lambda world: world.preview({0: world.positions()[0] - 5}),
    "skip": lambda world: world.skip({1: world.log.parts[1].stable_end}),
    "upkeep": lambda world: world.reap(),
}
OTHERS = ("appended", "by partition", "written once", "history")  # whose previews, skips and upkeep are looked at, too
OFTEN = {("appended", act, "live") for act in ACTS}
OFTEN |= {(kind, "takes over", "live") for kind in ("by partition", "written once", "keyed", "totals")}
EACH = [
    pytest.param(kind, act, run, marks=() if (kind, act, run) in OFTEN else pytest.mark.long)
    for kind in KINDS
    for act in ACTS
    for run in RUNS
    if run in {"live", "replay"} or kind in OTHERS
]


def places() -> Iterator[int]:
    """Yields places of statements without an end. Each place has its turn in one of some runs of the test."""
    place = 0
    while True:
        place += random.randint(1, 2 * STRIDE - 1 if place else min(STRIDE, 5))  # noqa: S311 - any will do
        yield place


@pytest.mark.parametrize(("kind", "act", "run"), EACH)
def test_a_run_ends_in_an_answer(database, tmp_path, monkeypatch, kind, act, run):
    target, guarantee = KINDS[kind]
    with closing(World(database, tmp_path, kind=target, guarantee=guarantee)) as world:
        world.log.produce(0, 6)
        world.once()
        another = Between(monkeypatch, lambda: ACTS[act](world))
        broken, acted = [], 0
        for place in places():
            for partition in range(3):
                world.log.produce(partition, 5)
            world.log.produce(1, 1, kind="garbage")
            another.at(place)
            told = Outcome.of(lambda: RUNS[run](world))
            found = another.said
            another.at(0)
            if found is None:
                break
            acted += 1
            broken += [f"{place}: {said}" for said in (told, found) if said.kind == "broken"]
            broken += progress(world, here(world))
            world.end_requests()
        world.abandon()
        world.reap()
        assert acted
        assert broken == []
        assert world.violations(rest=True) + world.drained() == []
