"""Tests that a deployment between two tasks of one run ends the attempt.

The next run does the batch under the new definition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg2
import pytest

from lockstep.core.errors import BadData, DefinitionChanged
from lockstep.core.pipeline.definition import Append, AtMostOnce, Idempotent, PerBatch, PerPartition, Upsert
from lockstep.core.pipeline.stores import Postgres
from lockstep.core.planning.decisions import Blocked, Resume
from lockstep.steps.batch import commit_batch, deliver, validate
from lockstep.steps.ranges import stage_ranges
from simulation.engine import RememberedEngine
from simulation.pipeline import DDL
from simulation.scene import COMMITTED, Scene, told

if TYPE_CHECKING:
    from lockstep.core.pipeline.folder import PipelineFolder

HOUSE2 = DDL["appended"].replace("public.house", "public.house2")
SUITE = {"name": "house", "expectations": [], "meta": {}}
CODE = "def transform(records):\n    return records\n"


def changed(part: str, folder: PipelineFolder) -> PipelineFolder:
    """Returns the pipeline's folder after a deployment that changed one part of it."""
    pipeline = folder.pipeline
    other = PerBatch() if isinstance(pipeline.guarantee, Idempotent) else Idempotent()
    of_folder = {"expectations": SUITE, "transform": CODE, "decode": CODE}
    of_pipeline = {
        "target": ("target", Append("public.house2")),
        "key": ("target", Upsert("public.house", key=("id", "n"))),
        "guarantee": ("guarantee", other),
        "store": ("store", Postgres("ELSEWHERE")),
    }
    if part in of_folder:
        return replace(folder, **{part: of_folder[part]})  # type: ignore[arg-type]
    name, value = of_pipeline[part]
    return replace(folder, pipeline=replace(pipeline, **{name: value}))  # type: ignore[arg-type]


def deployed(scene: Scene, part: str) -> None:
    """Lets every task load the changed folder from here on. Its code gives other rows."""
    scene.before = scene.folder  # type: ignore[attr-defined]
    scene.folder = changed(part, scene.folder)
    scene.pipeline = scene.folder.pipeline
    scene.factor = 7


def put_back(scene: Scene) -> None:
    scene.folder = scene.before  # type: ignore[attr-defined]
    scene.pipeline = scene.folder.pipeline
    scene.factor = 1


def values(scene: Scene) -> tuple[list[tuple], list[tuple]]:
    """Returns each record's id and value, in both tables."""
    one, two = (scene.ask(f"select id, factor from public.{table} order by 1, 2") for table in ("house", "house2"))
    return one, two


def ended(scene: Scene) -> list[tuple]:
    """Returns how each attempt ended: its state, and the fault that is counted against the batch."""
    return scene.ask("select state, fault from lockstep.attempt order by token")


@pytest.fixture
def house(database, tmp_path):
    opened = []

    def make(guarantee, kind: str = "appended") -> Scene:
        scene = Scene(database, tmp_path, kind=kind, guarantee=guarantee)
        scene.ask(HOUSE2 + "grant select, insert on public.house2 to lockstep_committer, lockstep_partition")
        opened.append(scene)
        return scene

    yield make
    for scene in opened:
        scene.end()


WHOLE = [PerBatch(), Idempotent(), AtMostOnce()]
EVERY = [*WHOLE, PerPartition()]
PARTS = ["target", "guarantee", "transform", "decode", "expectations"]
CELLS = [
    *(
        (guarantee, part)
        for guarantee in EVERY
        for part in PARTS
        if (guarantee, part) != (PerPartition(), "expectations")
    ),
    *((guarantee, "store") for guarantee in WHOLE[1:]),
]
NAMES = [f"{type(guarantee).__name__}-{part}" for guarantee, part in CELLS]


@pytest.mark.parametrize(("guarantee", "part"), CELLS, ids=NAMES)
@pytest.mark.parametrize("step", ["validate", "commit"])
def test_a_deployment_between_two_tasks_ends_the_attempt_and_commits_nothing_of_it(house, guarantee, part, step):
    scene = house(guarantee)
    scene.log.produce(0, 6)
    planned = scene.plan()
    attempt = scene.staged(planned) if step == "validate" else scene.validated(planned)
    before = values(scene)

    deployed(scene, part)
    said = told(lambda: getattr(scene, step)(attempt))

    assert said.startswith("DefinitionChanged: house: attempt "), said
    assert f"(changed: {part})" in said
    assert said.endswith("Next: lockstep run house")
    assert ended(scene) == [("failed", "surroundings")]
    assert values(scene) == before
    assert scene.ask("select count(*) from lockstep.delivery") == [(0,)]
    again = scene.plan()
    if part in {"transform", "decode", "expectations"}:
        assert isinstance(again.decision, Resume)
        if part == "decode":
            assert scene.on(again) == COMMITTED
            factor = 1 if isinstance(guarantee, PerPartition) else 7  # its tasks have committed before
            assert [{row[1] for row in table} for table in values(scene)] == [{factor}, set()]
    else:
        assert isinstance(again.decision, Blocked)
        assert "lockstep abandon" in again.decision.next_command
        put_back(scene)
        assert scene.on(scene.plan()) == COMMITTED
        assert [len(table) for table in values(scene)] == [6, 0]
        scene.reap()
        assert scene.violations(rest=True) == []


@pytest.mark.parametrize("part", ["target", "guarantee"])
@pytest.mark.parametrize("guarantee", [PerBatch(), PerPartition()], ids=["per batch", "per partition"])
def test_a_deployment_between_plan_and_stage_that_plan_would_refuse_opens_no_attempt(house, guarantee, part):
    scene = house(guarantee)
    scene.log.produce(0, 6)
    scene.done()
    scene.log.produce(0, 6)
    planned = scene.plan()
    deployed(scene, part)

    said = told(lambda: scene.staged(planned))

    assert said.startswith(f"Refusal: batch 2: house: its {part} was "), said
    assert f"a pipeline keeps its {part} for good" in said
    assert "Next: put it back, or lockstep" in said
    assert [len(table) for table in values(scene)] == [6, 0]
    assert ended(scene) == [("committed", None)]
    put_back(scene)
    assert scene.on(planned) == COMMITTED
    assert [len(table) for table in values(scene)] == [12, 0]


@pytest.mark.parametrize("lane", ["live", "replay"])
def test_a_batch_of_which_a_range_is_committed_is_not_staged_as_a_whole(house, monkeypatch, lane):
    scene = house(PerPartition())
    for partition in range(3):
        scene.log.produce(partition, 6)
    planned = scene.plan()
    if lane == "replay":
        scene.on(planned)
        planned = scene.plan_request(scene.asked("replay", dict.fromkeys(range(3), 0), dict.fromkeys(range(3), 6)))
    with monkeypatch.context() as broken:
        reading = RememberedEngine.one_range

        def first_alone(self, task, item, whole, number):
            if number:
                raise BadData("house: no task left")
            return reading(self, task, item, whole, number)

        broken.setattr(RememberedEngine, "one_range", first_alone)
        assert told(lambda: scene.staged(planned)) == "BadData: house: no task left"
    scene.before = scene.folder
    scene.folder = replace(scene.folder, pipeline=replace(scene.folder.pipeline, guarantee=PerBatch()))

    said = told(lambda: scene.staged(planned))

    assert f"batch {planned.batch_id}: house: its guarantee was PerPartition() and is now PerBatch()" in said
    put_back(scene)
    assert scene.on(planned) == COMMITTED
    assert [len(table) for table in values(scene)] == [18, 0]
    assert scene.violations(rest=True) == []


def test_another_key_of_an_upserted_table_ends_the_attempt(keyed):
    keyed.log.produce(0, 6)
    attempt = keyed.validated(keyed.plan())
    deployed(keyed, "key")

    assert told(lambda: keyed.commit(attempt)).startswith("DefinitionChanged: ")

    assert keyed.ask("select count(*) from public.house") == [(0,)]
    assert isinstance(keyed.plan().decision, Blocked)


def test_a_batch_that_is_committed_stays_committed_whatever_is_deployed_behind_it(house):
    scene = house(PerBatch())
    scene.log.produce(0, 6)
    attempt = scene.validated(scene.plan())
    scene.commit(attempt)
    deployed(scene, "target")

    assert told(lambda: scene.commit(attempt)) == COMMITTED

    assert [len(table) for table in values(scene)] == [6, 0]
    assert ended(scene) == [("committed", None)]


def test_deployments_never_block_a_batch(house):
    scene = house(PerBatch())
    scene.log.produce(0, 6)
    for version in range(4):
        attempt = scene.validated(scene.plan())
        scene.folder = replace(scene.folder, decode=f"# version {version}")
        with pytest.raises(DefinitionChanged):
            scene.commit(attempt)

    assert scene.on(scene.plan()) == COMMITTED
    assert ended(scene) == [("failed", "surroundings")] * 4 + [("committed", None)]


# The comparer → the modules whose comparison is off. The database then refuses by this constraint's name.
ALONE = [("validate", "judged_as_staged"), ("commit", "committed_as_staged")]


@pytest.mark.parametrize(("step", "constraint"), ALONE)
def test_the_database_refuses_another_definition_with_the_code_out_of_play(house, monkeypatch, step, constraint):
    for module in (commit_batch, deliver, validate):
        monkeypatch.setattr(module, "require_same_definition", lambda *_: None)
    scene = house(PerBatch())
    scene.log.produce(0, 6)
    planned = scene.plan()
    attempt = scene.staged(planned) if step == "validate" else scene.validated(planned)
    deployed(scene, "target")

    with pytest.raises(psycopg2.errors.ForeignKeyViolation, match=constraint):
        getattr(scene, step)(attempt)

    assert [len(table) for table in values(scene)] == [0, 0]
    assert scene.positions() == {0: 0, 1: 0, 2: 0}


def test_a_task_that_carries_another_definition_commits_no_range(house, monkeypatch):
    scene = house(PerPartition())
    scene.log.produce(0, 6)
    made = stage_ranges.RangesOfAttempt
    monkeypatch.setattr(stage_ranges, "RangesOfAttempt", lambda **how: made(**how | {"definition_hash": "another"}))

    with pytest.raises(psycopg2.errors.ForeignKeyViolation, match="committed_as_staged"):
        scene.staged(scene.plan())

    assert [len(table) for table in values(scene)] == [0, 0]
