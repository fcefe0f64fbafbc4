"""Tests that a column that is too narrow for a text refuses the batch: no way into the table cuts a value."""

from __future__ import annotations

import pytest

from lockstep.adapters.postgres import transaction
from lockstep.core.pipeline.definition import AtLeastOnce, AtMostOnce, Idempotent, PerBatch, PerPartition
from simulation.scene import Scene

WAYS = {
    "appended": ("appended", PerBatch()),
    "two": ("two", PerBatch()),
    "by batch": ("by_batch", PerBatch()),
    "upserted": ("keyed", PerBatch()),
    "appended by a task": ("appended", PerPartition()),
    "upserted by a task": ("keyed", PerPartition()),
    "delivered": ("appended", Idempotent()),
    "delivered by key": ("keyed", Idempotent()),
    "delivered at least once": ("appended", AtLeastOnce()),
    "delivered at most once": ("appended", AtMostOnce()),
}
NARROW = {
    "varchar": ("varchar(2)", "character varying(2)"),
    "char": ("char(2)", "character(2)"),
    "letter": ('"char"', '"char"'),
}
CASES = [(way, "varchar") for way in WAYS] + [("appended", narrow) for narrow in NARROW if narrow != "varchar"]


@pytest.fixture
def scene(request, database, tmp_path):
    kind, guarantee = WAYS[request.param]
    scene = Scene(database, tmp_path, kind=kind, guarantee=guarantee)  # type: ignore[arg-type]
    yield scene
    scene.end()


def alter(scene: Scene, type_: str, column: str = "id") -> None:
    with transaction(scene.at.conn, None) as cur:
        for table in scene.tables:
            cur.execute(f"alter table {table} alter {column} type {type_}")


@pytest.mark.parametrize(("scene", "narrow"), CASES, indirect=["scene"])
def test_a_text_that_the_column_does_not_hold_is_named_and_nothing_is_published(scene, narrow):
    type_, held = NARROW[narrow]
    alter(scene, type_)
    scene.log.produce(0, 3)

    answer = scene.on(scene.plan())

    said = f"house.id is {held} and cannot hold the text of the record at house.v1-0 offset 0 as it is"
    assert "BadData" in answer
    assert said in answer
    assert "\n" not in answer
    assert scene.rows() == []


@pytest.mark.parametrize("scene", WAYS, indirect=True)
def test_texts_that_a_narrow_column_holds_are_published_as_they_are(scene):
    alter(scene, "varchar(3)")
    scene.log.produce(0, 3)

    assert scene.on(scene.plan()) == "committed"

    assert [row[0] for row in scene.rows()] == ["0-1", "0-2", "0-3"]


@pytest.mark.parametrize("scene", WAYS, indirect=True)
def test_a_number_that_the_column_rounds_is_named_and_nothing_is_published(scene):
    alter(scene, "real", "crc")
    scene.log.produce(0, 3)

    answer = scene.on(scene.plan())

    assert "BadData" in answer
    assert "house.crc is real and cannot hold the bigint of the record at house.v1-0 offset 0 as it is" in answer
    assert "\n" not in answer
    assert scene.rows() == []


@pytest.mark.parametrize("scene", WAYS, indirect=True)
def test_numbers_that_a_column_of_another_type_holds_are_published_as_they_are(scene):
    alter(scene, "numeric(20,3)", "crc")
    scene.log.produce(0, 3)
    before = scene.ask("select count(*) from public.house")

    assert scene.on(scene.plan()) == "committed"

    assert before == [(0,)]
    assert [row[0] for row in scene.rows()] == ["0-1", "0-2", "0-3"]
