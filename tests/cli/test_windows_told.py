"""Tests what commands tell of windows: the watermark, what holds it, late records, and their admission."""

from __future__ import annotations

import json
import re

import pytest

from lockstep.core.changes.person import Person
from lockstep.steps.windows.admit import admit_late
from support.oracles.exposed import values
from support.scenes.windowed import into_windows


@pytest.fixture
def windowed(lockstep, drill, monkeypatch):
    """Leads the drill, with its 150 records of 150 ids, into windows of a minute. The command line works without Spark."""
    here = led_into_windows(lockstep, drill, monkeypatch)
    yield here
    here.at.close()


def led_into_windows(lockstep, drill, monkeypatch, of_target: str = ""):
    here = into_windows(drill, of_target=of_target)
    lockstep.environ(LOCKSTEP_DSN=drill.dsn, LOCKSTEP_KAFKA=drill.kafka, LOCKSTEP_PIPELINES=str(drill.home))
    for door in ("planning", "replaying", "running"):
        monkeypatch.setattr(f"lockstep.cli.batches.{door}.engine_for", lambda *_: here.engine)
    return here


def test_changes_of_windows_that_are_shown_are_by_no_person(lockstep, drill, monkeypatch):
    here = led_into_windows(lockstep, drill, monkeypatch, ", feed=Feed()")
    assert lockstep("run", "drill", "--until-idle").code == 0

    shown = lockstep("changes", "drill", "--from", "0", "--limit", "1")
    assert (shown.code, "a person" in shown.out) == (0, False)
    assert re.search(r"^ +0 +\d+ +insert +windows +", shown.out, re.MULTILINE), shown.out
    here.at.close()


def test_commands_tell_of_windows_and_of_late_records_until_they_are_admitted(lockstep, windowed, drill, produce):
    assert windowed.at
    document = lockstep("run", "drill", "--until-idle", "--json").document
    told = document["windows"]["public.by_minute"]
    assert document["watermark"].startswith("2026-05-01T12:02:2")
    assert (told["emitted"], told["updated"], told["late"]) == (120, 0, 0)
    assert drill.ask("select count(*), min(_revision), max(_revision) from public.by_minute") == [(120, 1, 1)]

    found = lockstep("windows", "drill", "--json").document
    assert (found["target"], found["counts"]) == (
        "public.by_minute",
        {"open": 30, "due": 0, "emitted": 120, "updated": 0, "late_rows": 0},
    )
    assert [(w["start"][11:16], w["state"], w["keys"], w["records"]) for w in found["windows"]] == [
        ("12:02", "open", 30, 30),
        ("12:01", "closed", 60, 60),
        ("12:00", "closed", 60, 60),
    ]
    assert found["held_by"][0]["why"] == "its newest committed event is the oldest of all partitions'"
    assert "public.by_minute: the watermark is 2026-05-01T12:02:2" in lockstep("windows", "drill").out

    produce(drill.topic, [("k0", json.dumps({"id": "r0", "n": 1}))])
    assert "0 emitted, 0 updated, 1 late" in lockstep("run", "drill").out
    status = lockstep("status", "drill", "--json").document
    counts = {"open": 30, "due": 0, "emitted": 120, "updated": 0, "late_rows": 1}
    assert (status["late_rows"], status["windows"]) == (1, [{"target": "public.by_minute"} | counts])
    told = values(lockstep("metrics").out)
    assert told["lockstep_open_windows", "drill", "public.by_minute"] == 30
    assert told["lockstep_late_rows", "drill", "public.by_minute"] == 1
    assert told["lockstep_watermark_lag_seconds", "drill"] == pytest.approx(status["watermark_lag_seconds"], abs=60)
    assert "1 rows were late" in lockstep("status", "drill").out
    batch = lockstep("batches", "drill", "--json").document["batches"][-1]["batch"]
    assert lockstep("batch", str(batch), "--json").document["late"] == {"public.by_minute": 1}
    assert "1 rows were late for public.by_minute" in lockstep("batch", str(batch)).out

    late = lockstep("late", "drill", "--json").document
    assert (late["late"], late["by_window"][0]["rows"]) == (1, 1)
    assert (late["records"][0]["key"], late["records"][0]["row"]["n"], late["records"][0]["batch"]) == (
        ["r0"],
        1,
        batch,
    )
    assert "public.by_minute: 1 late\n" in lockstep("late", "drill").out

    waiting = admit_late(windowed.at.conn, windowed.at.broker, windowed.folder, Person("ada", "the shop was offline"))
    assert "1 of these are admitted, and their replay has not ended" in lockstep("late", "drill").out
    admitted = lockstep("late", "drill", "--admit", "--reason", "once more", "--json").document
    assert (admitted["lane"], admitted["decision"], admitted["late"]) == ("replay", "done", 0)
    assert (admitted["request"], admitted["goes_on"]) == (waiting.request_id, True)
    assert lockstep("late", "drill", "--json").document["late"] == 0
    assert drill.ask("select records, _revision from public.by_minute where id = 'r0'") == [(2, 2)]
    assert drill.ask("select who is not null, why from lockstep.decision where kind = 'admit-late'") == [
        (True, "the shop was offline")
    ]
    assert lockstep("late", "drill", "--admit", "--reason", "again", "--json").document["request"] is None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (["late", "drill", "--admit"], "Invalid value for --reason: a decision needs a reason"),
        (["late", "drill", "--reason", "x"], "Invalid value for --reason: a list changes nothing: it goes with --admit"),
        (["late", "drill", "--admit", "--reason", "x", "--from", "3"], "Invalid value for --partition: offsets are those"),
        (["late", "drill", "--target", "public.other"], "drill: public.other has no windows; there are: public.by_minute"),
        (["windows", "drill", "--target", "public.other"], "drill: public.other has no windows"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_refused_in_one_line(lockstep, windowed, call, said):
    assert windowed
    answer = lockstep(*call)
    assert answer.err.startswith(said)
    assert (answer.out, answer.err.count("\n")) == ("", 1)


def test_a_pipeline_without_windows_says_so(lockstep, drill):
    lockstep.environ(LOCKSTEP_DSN=drill.dsn, LOCKSTEP_KAFKA=drill.kafka, LOCKSTEP_PIPELINES=str(drill.home))
    for call in (["windows", "drill"], ["late", "drill"], ["late", "drill", "--admit", "--reason", "x"]):
        assert lockstep(*call).err == "drill: no target of it has windows  Next: lockstep status drill\n"
