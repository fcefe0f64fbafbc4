from __future__ import annotations

import pytest

from house.scene import Scene


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


@pytest.fixture
def accumulated(database, tmp_path):
    scene = Scene(database, tmp_path, kind="accumulated")
    yield scene
    scene.end()
