"""A promotion between two tasks of one run ends the attempt, under every guarantee, and nothing of it is committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lockstep.core.pipeline.definition import AtMostOnce, Idempotent, PerBatch, PerPartition
from lockstep.core.planning.decisions import Blocked, Start
from lockstep.steps.batch import commit_batch
from lockstep.steps.changes.promote import promote, withdraw_promotion
from simulation.scene import COMMITTED, Scene, told
from simulation.world import ME

if TYPE_CHECKING:
    from lockstep.core.pipeline.folder import PipelineFolder

CODE = "def transform(records):\n    return records\n"


@pytest.fixture
def house(database, tmp_path):
    opened = []

    def make(guarantee) -> Scene:
        opened.append(Scene(database, tmp_path, kind="appended", guarantee=guarantee))
        return opened[-1]

    yield make
    for scene in opened:
        scene.end()


def new(scene: Scene) -> PipelineFolder:
    return replace(scene.folder, transform=CODE, transform_file=Path("new.py"))


@pytest.mark.parametrize("guarantee", [PerBatch(), Idempotent(), AtMostOnce()], ids=lambda each: type(each).__name__)
def test_a_validated_attempt_of_another_transform_brings_nothing_anywhere(house, guarantee):
    scene = house(guarantee)
    scene.log.produce(0, 6)
    attempt = scene.validated(scene.plan())

    promote(scene.at.conn, new(scene), ME)

    said = told(lambda: scene.commit(attempt))
    assert said.startswith("DefinitionChanged: house: "), said
    assert said.endswith("lockstep promote house --withdraw --reason ...")
    assert scene.rows() == []
    assert scene.ask("select count(*) from lockstep.delivery") == [(0,)]
    assert scene.ask("select state, fault from lockstep.attempt") == [("failed", "surroundings")]
    assert isinstance(scene.plan().decision, Blocked)
    withdraw_promotion(scene.at.conn, "house", ME)
    assert scene.on(scene.plan()) == COMMITTED
    assert len(scene.rows()) == 6


def test_a_task_that_commits_its_own_range_is_refused_by_the_database(house):
    scene = house(PerPartition())
    scene.log.produce(0, 6)
    planned = scene.plan()
    assert isinstance(planned.decision, Start)
    promote(scene.at.conn, new(scene), ME)

    said = told(lambda: scene.staged(planned))

    assert said.startswith(
        f"DefinitionChanged: promoted_alone: batch {planned.batch_id} is not made by the transform"
    ), said
    assert scene.ask("select state, fault from lockstep.attempt") == [("failed", "surroundings")]
    assert scene.rows() == []
    assert scene.positions() == {0: 0, 1: 0, 2: 0}


def test_a_store_elsewhere_is_given_nothing_that_the_offsets_would_not_follow(house, monkeypatch):
    scene = house(AtMostOnce())
    scene.log.produce(0, 6)
    attempt = scene.validated(scene.plan())
    promote(scene.at.conn, new(scene), ME)
    monkeypatch.setattr(commit_batch, "require_promoted", lambda *_: None)

    assert told(lambda: scene.commit(attempt)).startswith("DefinitionChanged: ")

    assert scene.rows() == []
