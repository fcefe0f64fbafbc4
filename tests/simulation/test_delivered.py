"""Tests that an idempotent pipeline has each record once as soon as a run continues.

Processes die between results and offsets.
"""

from __future__ import annotations

import os

import pytest

from lockstep.core.pipeline.definition import Idempotent
from simulation.storm import ON_THE_WAY, REPLAYS_ONLY, Storm
from simulation.world import World

APART = ("deliver.taken", "deliver.written", "deliver.done")
COMMITS = int(os.environ.get("LOCKSTEP_DELIVERED_STORM", "20"))


class DeliveredStorm(Storm):
    """Crashes, zombies and replays. No act abandons a batch whose results have been delivered already."""

    points = (*(point for point in ON_THE_WAY if point != "commit.published"), *REPLAYS_ONLY, *APART, *APART, *APART)  # type: ignore[assignment]

    def something_happens(self) -> None:
        kind = self.rng.choices(["data", "garbage", "aborted"], [80, 5, 10])[0]
        self.world.log.produce(self.rng.randrange(len(self.world.log.parts)), self.rng.randint(1, 12), kind=kind)
        if self.rng.random() < 0.2:
            self.world.leases_run_out()
        if self.rng.random() < 0.1:
            self.world.factor = self.rng.randint(1, 9)

    def look(self) -> None:
        self.world.leases_run_out()
        self._judge("end_requests", self._without_fault("end_requests"))
        super().look()

    def _act(self) -> tuple[str, tuple]:
        act, arguments = super()._act()
        return (act, arguments) if act in {"once", "redo"} else ("once", ())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["appended", "keyed"])
@pytest.mark.usefixtures("impatient")
def test_a_storm_between_the_moves_loses_and_doubles_nothing(database, tmp_path, kind):
    seed = int.from_bytes(os.urandom(4))
    storm = DeliveredStorm(World(database, tmp_path, kind=kind, guarantee=Idempotent()), seed)

    figures = storm.rage(commits=COMMITS)

    assert figures.violations == [], f"seed {seed}"
    assert len(storm.committed_and_struck()) >= COMMITS
    assert {*APART} & figures.points(), f"seed {seed}"
