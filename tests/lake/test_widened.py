"""Tests that a real is the same number in a column that another writer has widened, whichever way it comes there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lake.conftest import InLake, InProcess
from lake.test_columns_between import led_to_changed
from lockstep.steps.lake import stage_files
from lockstep.steps.proof.verify import verify

if TYPE_CHECKING:
    from lake.test_columns_between import Document

KEYED = """
from lockstep import Append, Iceberg, Json, Limits, Pipeline, Upsert
P = Pipeline(
    name="drill", topic="{topic}", format=Json("f float, n int"), limits=Limits(records=400),
    target=Upsert(Iceberg("sales.drill"), key=("f",)),
)
"""
APPENDED = KEYED.replace('Upsert(Iceberg("sales.drill"), key=("f",))', 'Append(Iceberg("sales.drill"))')
SENT = 60


class OfReals(InLake):
    """The drill with records of a real that no float holds exactly. Each call sends the same ones."""

    def produce(self, count: int) -> None:
        self._send(self.drill.topic, [(f"k{i}", json.dumps({"f": i + 0.1, "n": i})) for i in range(count)])

    def numbers(self) -> list[float]:
        return sorted(row["f"] for batch in self.table().read(["f"]) for row in batch.to_pylist())


class OfRealsByTasks(OfReals, InProcess):
    """The same, whose rows are never staged."""


def widen(document: Document) -> None:
    for field in document["schemas"][0]["fields"]:
        field["type"] = "double" if field["name"] == "f" else field["type"]


def failed(lake: OfReals) -> list[Any]:
    return [check for check in verify(lake.at.conn, lake.at.broker, lake.folder, deep=True) if not check.ok]


def reals() -> list[float]:
    return sorted(float(np.float32(i + 0.1)) for i in range(SENT))


def test_a_key_is_found_again_in_a_column_that_was_widened(made_lake):
    lake = made_lake(OfReals, KEYED)
    lake.drain()
    led_to_changed(lake, widen)
    lake.produce(SENT)
    lake.drain()
    assert lake.numbers() == reals()
    assert failed(lake) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", [OfReals, OfRealsByTasks])
def test_appended_reals_are_those_of_the_records(made_lake, monkeypatch, kind):
    if kind is OfReals:  # as for a pipeline with expectations
        monkeypatch.setattr(stage_files, "is_preview", lambda *_: True)
    lake = made_lake(kind, APPENDED)
    led_to_changed(lake, widen)
    lake.drain()
    assert lake.numbers() == reals()
    assert failed(lake) == []
