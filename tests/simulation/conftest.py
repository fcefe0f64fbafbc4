from __future__ import annotations

import pytest

from lockstep.adapters import postgres
from lockstep.core.pipeline.definition import PerPartition
from simulation.mirror import Mirror
from simulation.scene import Scene


@pytest.fixture
def database(database, servers):
    """Yields a database whose commits are cheap to reach: a storm asks it some hundred thousand times."""
    return servers.near(database)


@pytest.fixture
def impatient(monkeypatch):
    """Soon ends the session of a stopped process that holds locks: all others wait for it."""
    monkeypatch.setattr(postgres, "IDLE_SECONDS", 0.7)


@pytest.fixture
def scene(database, tmp_path):
    scene = Scene(database, tmp_path)
    yield scene
    scene.end()


@pytest.fixture
def keyed(database, tmp_path):
    scene = Scene(database, tmp_path, kind="keyed")
    yield scene
    scene.end()


@pytest.fixture
def ordered(database, tmp_path):
    scene = Scene(database, tmp_path, kind="ordered")
    yield scene
    scene.end()


@pytest.fixture(params=["per batch", "per partition"])
def mirror(request, database, tmp_path):
    scene = Mirror(database, tmp_path, PerPartition() if request.param == "per partition" else None)
    yield scene
    scene.end()


@pytest.fixture
def accumulated(database, tmp_path):
    scene = Scene(database, tmp_path, kind="accumulated")
    yield scene
    scene.end()
