"""Tests what becomes of windows in a copy of their pipeline, in a canary, and at a hand-over of their table."""

from __future__ import annotations

import json

import pytest

from lockstep.adapters.folders import load
from lockstep.steps.proof.verify import verify
from support.scenes.windowed import into_windows

pytestmark = pytest.mark.long
SHOWN = "select window_start, window_end, id, records, _revision from public.{} order by 1, 3"
LATE = 'select "offset", window_start, window_end, key, event_time from lockstep.late where target = %s order by 1'


@pytest.fixture
def windowed(lockstep, drill, monkeypatch):
    """Leads the drill into windows of a minute, with one late record. `run copied` runs its copy."""
    here = into_windows(drill)
    lockstep.environ(LOCKSTEP_DSN=drill.dsn, LOCKSTEP_KAFKA=drill.kafka, LOCKSTEP_PIPELINES=str(drill.home))
    for door in ("planning", "replaying", "running"):
        monkeypatch.setattr(f"lockstep.cli.batches.{door}.engine_for", lambda *_: here.engine)
    here.drain()
    yield here
    here.at.close()


def whole(here) -> None:
    checks = verify(here.at.conn, here.at.broker, here.folder_as_run, deep=True)
    assert [f"{check.name}: {check.detail}" for check in checks if not check.ok] == []


def test_a_copy_of_windows_has_their_totals_and_shows_them_by_its_own_watermark(
    lockstep, windowed, drill, produce, monkeypatch
):
    produce(drill.topic, [("k0", json.dumps({"id": "r0", "n": 1}))])
    windowed.drain()
    original = drill.ask(SHOWN.format("by_minute"))
    assert len(original) == 120
    assert len(drill.ask(LATE, "public.by_minute")) == 1

    said = lockstep("clone", "drill", "--to", "copied", "--json")

    assert said.document["tables"] == [{"table": "public.by_minute", "copy": "public.copied"}]
    whole(windowed)
    monkeypatch.setattr(type(windowed), "folder", property(lambda _: load("copied")))
    for call in said.document["next"]:
        assert lockstep(*call.split()[1:]).code == 0, call
    whole(windowed)
    # The copy reads all of it as one batch, before anything is judged: the record that was late counts.
    counted = [(*row[:3], row[3] + 1, *row[4:]) if row[2] == "r0" else row for row in original]
    assert drill.ask(SHOWN.format("copied")) == counted
    assert drill.ask(LATE, "public.copied") == []
    assert drill.ask(SHOWN.format("by_minute")) == original
    marks = drill.ask("select pipeline, watermark from lockstep.event_time order by 1")
    assert [name for name, _ in marks] == ["copied", "drill"]
    assert marks[0][1] == marks[1][1]


def test_windows_are_handed_over_to_nobody_whatever_the_other_pipeline_makes_of_the_table(lockstep, windowed, drill):
    copy = drill.home / "copied" / "__init__.py"
    call = ("hand-over", "public.by_minute", "--from", "drill", "--to", "copied", "--reason", "x")
    lockstep("clone", "drill", "--to", "copied")
    as_windows = copy.read_text().replace('"public.copied"', '"public.by_minute"')
    append = 'from lockstep import Append, Json, Pipeline\nP = Pipeline("copied", "other", Json("id string"), {})\n'
    refused = (
        "public.by_minute has windows, and their event time is that of drill: it cannot be handed over  "
        "Next: give copied a table of its own; or lockstep rename drill NEW --reason WHY\n"
    )
    for definition in (as_windows, append.format('Append("public.by_minute")')):
        copy.write_text(definition)
        answer = lockstep(*call)
        assert (answer.out, answer.err) == ("", refused)
    assert drill.ask("select pipeline from lockstep.target_owner where target = 'public.by_minute'") == [("drill",)]
    assert windowed.plan()


def test_a_canary_of_windows_is_refused_in_one_line_before_spark_starts(lockstep, windowed, tmp_path):
    assert windowed
    transform = tmp_path / "transform.py"
    transform.write_text("def transform(records):\n    return records\n")
    answer = lockstep("canary", "drill", "--transform", str(transform))
    assert answer.out == ""
    assert answer.err == (
        "drill: public.by_minute has windows, and their rows are not those of single batches  "
        "Next: lockstep try drill --file SAMPLE.jsonl\n"
    )
