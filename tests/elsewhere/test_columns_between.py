"""Tests that a delivery into a table elsewhere is refused by name where its columns have changed.

Needs no ledger.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, StringType

from elsewhere.test_bring import COUNT, Scene
from lockstep.adapters.iceberg.elsewhere import TableElsewhere
from lockstep.core.errors import Refusal


@pytest.fixture(name="scene")
def made_scene(server, tmp_path):
    return Scene(server, tmp_path)


def drop(table) -> None:
    with table.update_schema() as change:
        change.delete_column("n")


def rename(table) -> None:
    with table.update_schema() as change:
        change.rename_column("n", "number")


def make_anew(table) -> None:
    drop(table)
    with table.refresh().update_schema() as change:
        change.add_column("n", IntegerType())


def require_more(table) -> None:
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.add_column("extra", StringType(), required=True)


def part(table) -> None:
    with table.update_spec() as change:
        change.add_field("_batch", IdentityTransform(), "b")


NO_COLUMN = "POLARIS.web.drill: it has no column n, which takes int"
NOT_THE_ONE = "the column n of POLARIS.web.drill is not the one that the batch's files were written for"
CHANGES = [
    (make_anew, NOT_THE_ONE),
    (drop, NO_COLUMN),
    (rename, NO_COLUMN),
    (require_more, "its column extra is required"),
    (part, "it is partitioned by b"),
]
NAMES = [change.__name__ for change, _ in CHANGES]


@pytest.mark.parametrize(("change", "why"), CHANGES, ids=NAMES)
def test_columns_that_change_while_a_delivery_is_prepared_refuse_it_and_nothing_is_written(
    scene, monkeypatch, change, why
):
    write = TableElsewhere.write_files

    def changed_behind(table, *given: Any) -> list[str]:
        files = write(table, *given)
        change(scene.table)
        return files

    monkeypatch.setattr(TableElsewhere, "write_files", changed_behind)

    with pytest.raises(Refusal, match=why):
        scene.store.bring(scene.delivery(7, 20))

    assert [status for _, status in scene.server.commits] == [409]
    assert scene.table.current_snapshot() is None


@pytest.mark.parametrize(("change", "why"), CHANGES[1:], ids=NAMES[1:])
def test_columns_that_have_changed_before_a_delivery_refuse_it_and_nothing_is_sent(scene, change, why):
    change(scene.table)

    with pytest.raises(Refusal, match=why):
        scene.store.bring(scene.delivery(7, 20))

    assert scene.server.commits == []


def test_a_column_more_that_comes_while_a_delivery_is_prepared_is_left_empty(scene, monkeypatch):
    write = TableElsewhere.write_files

    def changed_behind(table, *given: Any) -> list[str]:
        files = write(table, *given)
        with scene.table.update_schema() as change:
            change.add_column("more", StringType())
        return files

    monkeypatch.setattr(TableElsewhere, "write_files", changed_behind)

    assert scene.store.bring(scene.delivery(7, 20))["inserted"] == COUNT

    assert [row["more"] for row in scene.table.scan().to_arrow().to_pylist()] == [None] * COUNT
