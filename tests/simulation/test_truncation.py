"""Tests that the steps which the page names for a truncated source end with the source's rows, on several partitions."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lockstep.core.errors import BadData
from lockstep.core.pipeline.definition import PerPartition
from lockstep.core.planning.bounds import AtOffsets
from lockstep.steps.changes.skip import skip
from simulation.mirror import Mirror
from simulation.world import ME
from support.fakes.captured import CapturedRecord

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"
TRUNCATION = CapturedRecord(None, b'{"op": "t", "source": {}, "before": null, "after": null}')
COMMITTED, UNREAD, NEW = 1, 2, 3  # ids: in the target, not read when the source is truncated, and inserted behind that


@pytest.fixture(params=["per batch", "per partition"])
def mirror(request, database, tmp_path):
    scene = Mirror(database, tmp_path, PerPartition() if request.param == "per partition" else None)
    yield scene
    scene.end()


def row(op: str, key: int, name: str) -> CapturedRecord:
    value = {"op": op, "source": {}, "before": None, "after": {"id": key, "name": name}}
    return CapturedRecord(json.dumps({"id": key}).encode(), json.dumps(value).encode())


def steps() -> list[str]:
    """Returns the steps of the page's list, in its order."""
    (section,) = re.findall(r"^### A source that is truncated\n(.*?)^### ", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return re.findall(r"^\d\. (.*)$", section, re.MULTILINE)


def take(step: str, scene: Mirror) -> None:
    """Does what a step of the page says."""
    if "lockstep skip" in step:
        behind = AtOffsets({0: scene.log.parts[0].end})
        skip(scene.at.conn, scene.at.broker, scene.folder.pipeline, behind, ME, datetime.now(UTC))
    elif "lockstep run" in step:
        scene.done()
    elif "delete from" in step:
        scene.ask("delete from public.house returning id")
    else:
        assert "snapshot" in step
        scene.put(row("r", NEW, "new"))


def test_what_the_page_says_of_a_truncation_leaves_the_sources_rows(mirror):
    parts = {key: sum(json.dumps({"id": key}).encode()) % len(mirror.log.parts) for key in (COMMITTED, UNREAD, NEW)}
    assert 0 not in (parts[UNREAD], parts[NEW])
    mirror.put(row("c", COMMITTED, "old"))
    mirror.write([row("c", UNREAD, "old"), TRUNCATION, row("c", NEW, "new")])
    with pytest.raises(BadData, match="the source's table was truncated, and rows stay here"):
        mirror.done()
    for step in steps():
        take(step, mirror)
    assert mirror.rows == {NEW: {"name": "new", "doc": None, "photo": None}}


def test_the_target_is_emptied_when_older_records_are_read(mirror):
    """Another partition may still hold records from before the truncation, as here."""
    mirror.write([row("c", UNREAD, "old"), TRUNCATION])
    with pytest.raises(BadData):
        mirror.done()
    for step in steps():
        take(step, mirror)
        if "lockstep run" in step:
            assert UNREAD in mirror.rows
    assert mirror.rows.keys() == {NEW}
