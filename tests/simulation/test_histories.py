"""Tests processes that race: planners, zombies with old tokens, replays and fills against the live lane.

Their leases run out meanwhile.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from lockstep.adapters import postgres
from simulation.history import History
from simulation.world import World

ROUNDS = int(os.environ.get("LOCKSTEP_HISTORIES", "12"))


@pytest.mark.parametrize(("kind", "width"), [("appended", 4), ("keyed", 6), ("appended", 8)])
@pytest.mark.timeout(1800)
def test_whatever_they_were_told_is_so(database, tmp_path, monkeypatch, kind, width):
    monkeypatch.setattr(postgres, "IDLE_SECONDS", 0.7)
    seed = int.from_bytes(os.urandom(4))
    history = History(World(database, tmp_path, kind=kind), seed, width)

    found = history.play(ROUNDS)

    outcomes = Counter(operation.outcome for operation in history.log)
    assert found == [], f"seed {seed}"
    assert outcomes["ok"], outcomes
    assert outcomes["unknown"], outcomes
