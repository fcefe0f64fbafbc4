"""Tests that a transform which renames a column says so of its unavailable values, or is refused before it writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lockstep.core.errors import BadData
from lockstep.core.pipeline.definition import PerPartition
from simulation.mirror import Mirror, MirroringEngine
from support.fakes.captured import PLACEHOLDER, CapturedRecord

if TYPE_CHECKING:
    from lockstep.formats.rows import RecordOutcome

REFUSAL = (
    r"public.house: the record at .* offset 1 leaves remark open, and that is no column here: a transform that renames or "
    r"drops a column does the same in _unavailable"
)


class RenamingEngine(MirroringEngine):
    """An engine whose transform has made `doc` of `remark`, and perhaps has renamed or dropped it in the mark, too."""

    of_mark: str | None = "remark"

    def judged(self, record: Any) -> RecordOutcome:
        outcome = super().judged(record)
        if outcome.values.get("_unavailable") != "doc":
            return outcome
        return outcome._replace(values=outcome.values | {"_unavailable": self.of_mark})


class Renamed(Mirror):
    """A mirror behind that transform."""

    of_mark: str | None = "remark"

    def _engine(self) -> MirroringEngine:
        engine = RenamingEngine(self.folder, self.log, self.dsn)
        engine.of_mark = self.of_mark
        return engine


@pytest.fixture(params=["per batch", "per partition"])
def renamed(request, database, tmp_path):
    scene = Renamed(database, tmp_path, PerPartition() if request.param == "per partition" else None)
    yield scene
    scene.end()


def row(op: str, name: str, doc: str) -> CapturedRecord:
    value = {"op": op, "source": {}, "before": None, "after": {"id": 1, "name": name, "doc": doc}}
    return CapturedRecord(json.dumps({"id": 1}).encode(), json.dumps(value).encode())


def test_a_mark_of_no_column_is_refused_and_the_row_keeps_its_value(renamed):
    renamed.put(row("c", "a", "first"))
    with pytest.raises(BadData, match=REFUSAL):
        renamed.put(row("u", "b", PLACEHOLDER))
    assert renamed.rows == {1: {"name": "a", "doc": "first", "photo": None}}


def test_a_mark_that_is_renamed_with_its_column_keeps_the_value(renamed):
    renamed.of_mark = "doc"
    renamed.put(row("c", "a", "first"))
    renamed.put(row("u", "b", PLACEHOLDER))
    assert renamed.rows == {1: {"name": "b", "doc": "first", "photo": None}}


@pytest.mark.parametrize("of_mark", ["", None])
def test_a_mark_that_is_dropped_with_its_column_leaves_nothing_open(renamed, of_mark):
    renamed.of_mark = of_mark
    renamed.put(row("u", "b", PLACEHOLDER))
    assert renamed.rows == {1: {"name": "b", "doc": None, "photo": None}}
