"""Tests that a delivery into a table elsewhere is refused by name where its store refuses.

Needs no ledger.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from elsewhere.test_bring import PIPELINE, Scene
from lockstep.adapters.iceberg import within
from lockstep.core.errors import Refusal, Unreachable
from support.oracles.next_commands import faults_of


@pytest.fixture(name="scene")
def made_scene(server, tmp_path):
    return Scene(server, tmp_path)


@pytest.mark.parametrize(
    ("said", "kind", "why"),
    [
        ("AWS Error ACCESS_DENIED during PutObject: hush-hush", Refusal, "this login may not do that there"),
        ("AWS Error NETWORK_CONNECTION during PutObject: hush-hush", Unreachable, "no store answers"),
        ("the disk says hush-hush", Unreachable, r"the disk says \*\*\*"),
    ],
    ids=["refuses", "away", "other"],
)
def test_a_store_that_refuses_is_one_line_without_a_secret_and_names_the_settings_of_its_catalog(
    scene, monkeypatch, said, kind, why
):
    scene.store = scene.patient(3.0, **{"s3.secret-access-key": "hush-hush"})

    def refuses(*_: Any) -> None:
        raise OSError(said)

    monkeypatch.setattr(PyArrowFileIO, "new_output", refuses)

    with pytest.raises(kind, match=f"^drill: POLARIS.web.drill: {why}") as refused:
        scene.store.bring(scene.delivery(7, 20))

    assert refused.value.next_command.startswith("correct LOCKSTEP_CATALOG_POLARIS")
    assert "hush" not in str(refused.value)
    assert faults_of(refused.value.next_command) == []


def test_deletes_that_cannot_be_applied_name_the_call_in_their_own_catalog(scene, monkeypatch):
    scene.store.bring(scene.delivery(7, 20))
    monkeypatch.setattr(within, "equality_deletes", lambda *_: ["s3://b/deletes.parquet"])

    with pytest.raises(Refusal, match=r"POLARIS.web.drill: s3://b/deletes.parquet holds equality deletes") as refused:
        scene.store.counts(PIPELINE, [(1, 0, 5)])

    assert refused.value.next_command.startswith("in Spark: call POLARIS.system.rewrite_data_files('web.drill'")


def test_a_file_that_is_missing_is_one_line(scene):
    scene.store.bring(scene.delivery(7, 20))
    for task in scene.table.scan().plan_files():
        Path(task.file.file_path.removeprefix("file://")).unlink()

    for act in (
        lambda: scene.store.counts(PIPELINE, [(1, 0, 5)]),
        lambda: scene.store.bring(replace(scene.delivery(8, 21), ranges=((1, 0, 3),))),
    ):
        with pytest.raises(Refusal, match=r"drill: POLARIS\.web\.drill: a file is missing: ") as refused:
            act()
        assert refused.value.next_command == "put that file back, or take it out of the table by Spark or Trino"
