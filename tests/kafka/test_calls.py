"""Tests the calls for other orchestrators: what they do, what they return, and what they refuse."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

import lockstep
from lockstep import calls
from lockstep.results import BatchResult, NeedsDecision, Refusal, StretchResult
from support.scenes.odd_logs import delete_records

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
SPANS = [(0, 0, 41), (1, 0, 50), (2, 0, 59)]


@pytest.fixture
def called(here, monkeypatch):
    """Returns the drill's pipeline with the settings that a program would have."""
    monkeypatch.setenv("LOCKSTEP_DSN", here.drill.dsn)
    monkeypatch.setenv("LOCKSTEP_KAFKA", here.drill.kafka)
    return here


def spans(offsets):
    return sorted((each.partition, each.from_offset, each.until_offset) for each in offsets)


def test_a_pipeline_is_planned_run_told_verified_and_replayed(called):
    drill = called.folder.pipeline

    planned = lockstep.plan(drill)
    assert (planned.decision, spans(planned.offsets), planned.blocked) == ("start", SPANS, None)
    assert called.drill.ask("select count(*) from lockstep.batch") == [(0,)]

    first = lockstep.run(drill)
    (batch,) = first.batches
    assert (first.pipeline, first.decision, first.written, first.rejected) == ("drill", "start", 150, 0)
    assert (batch.lane, batch.state, spans(batch.offsets)) == ("live", "committed", SPANS)
    assert [(each.delivered, each.written, each.filtered) for each in batch.offsets] == [(n, n, 0) for _, _, n in SPANS]
    assert set(batch.seconds) == {"plan", "stage", "validate", "commit"}
    with pytest.raises(FrozenInstanceError):
        batch.batch = 2  # type: ignore[misc]
    assert called.drill.ask("select count(*), sum(n) from public.drill") == [(150, sum(range(150)))]

    idle = lockstep.run("drill", until_idle=True)
    assert (idle.decision, idle.batches, idle.written) == ("idle", (), 0)

    again = lockstep.replay(drill, "0:0", "0:10", reason="looked at")
    assert [(each.lane, each.state) for each in again.batches] == [("replay", "committed")]
    assert again.batches[0].batch > batch.batch

    told = lockstep.status(drill)
    assert told.pipeline == "drill"
    assert (told.lag_records, told.under_way, told.oldest_waiting_seconds) == (0, (), 0)
    places = sorted((s.partition, s.log_start, s.position, s.stable_end) for s in told.streams)
    assert places == [(*span, span[-1]) for span in SPANS]
    assert told.health in {"well", "warned"}, told.conditions

    proved = lockstep.verify(drill, deep=True)
    assert proved.ok, proved.checks
    assert len(proved.checks) > 10
    assert "coordinates and contents compared with Kafka" in proved.conclusion
    assert proved.next_command is None

    ((batch,),) = called.drill.ask("update public.drill set n = -1 where id = 'r7' returning _batch")
    wrong = lockstep.verify(drill)
    assert (wrong.ok, wrong.next_command) == (False, f"lockstep replay drill --batch {batch}")


def test_a_key_is_one_batch_and_a_blocked_pipeline_needs_a_decision(called, produce):
    assert lockstep.run("drill", key="monday").decision == "start"
    assert lockstep.run("drill", key="monday").decision == "done"
    with pytest.raises(Refusal, match="key does not go with until_idle"):
        lockstep.run("drill", key="monday", until_idle=True)
    produce(called.drill.topic, [("k", json.dumps({"id": "late", "n": n})) for n in range(20)], partition=0)
    delete_records(called.drill.kafka, called.drill.topic, 50)

    blocked = lockstep.plan("drill").blocked
    with pytest.raises(NeedsDecision) as refused:
        lockstep.run("drill")
    assert (refused.value.message, refused.value.next_command) == (blocked.message, blocked.next_command)
    assert "offsets [41, 50) were deleted before they were committed" in blocked.message
    assert blocked.next_command.startswith("lockstep accept-loss drill --partition 0 --from 41 --until 50")
    assert lockstep.status("drill").health == "blocked"


def test_what_is_not_the_pipeline_on_disk_is_refused(called):
    drill = called.folder.pipeline
    with pytest.raises(Refusal, match=r"drill: this value is not the one in .*drill, which a run would take"):
        lockstep.run(replace(drill, owner="somebody else"))
    with pytest.raises(Refusal, match="no pipeline 'nobody'"):
        lockstep.status("nobody")
    with pytest.raises(Refusal, match="what is to be replayed"):
        lockstep.replay(drill, reason="nothing")
    with pytest.raises(Refusal, match="from_ 'yesterday' is no bound"):
        lockstep.replay(drill, "yesterday", reason="none")
    assert called.drill.ask("select count(*) from lockstep.batch") == [(0,)]


def test_threads_of_one_process_take_turns_and_no_record_is_read_twice(called):
    found = []
    threads = [threading.Thread(target=lambda: found.append(lockstep.run("drill"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(each.decision for each in found) == ["idle", "idle", "start"]
    assert called.drill.ask("select count(*), count(distinct id) from public.drill") == [(150, 150)]


@pytest.mark.usefixtures("called")
def test_the_example_of_the_page_runs_as_it_stands(capsys):
    (example,) = re.findall(r"```python\n(# load_orders.py\n.*?)```", PAGE.read_text(), re.DOTALL)
    space: dict = {}

    exec(example.replace('"orders"', '"drill"'), space)  # noqa: S102 - the page is ours

    said = capsys.readouterr().out
    assert space["rows"] == 150
    assert re.search(r"batch \d+: \S+-1 \[0, 50\): 50 rows\n", said)
    assert re.search(r"^(well|warned): 0 records wait$", said, re.MULTILINE)
    assert "every check holds" in said


def test_the_page_names_each_call_and_each_connection_is_closed(called):
    assert re.findall(r"^\| `(\w+)\(", PAGE.read_text(), re.MULTILINE) == ["run", "plan", "replay", "status", "verify"]
    assert (lockstep.run, lockstep.status) == (calls.run_pipeline, calls.pipeline_status)
    lockstep.status("drill")
    name = called.drill.dsn.rpartition("/")[2]
    left = called.drill.ask(
        "select count(*) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()", name
    )
    assert left[0][0] <= 1  # the fixture's own


def test_counts_of_a_batch_that_is_not_committed_are_no_rows():
    planned = BatchResult(1, "live", "planned", (StretchResult("t", 0, 0, 9),), {})
    assert (planned.written, planned.rejected) == (0, 0)
    assert json.loads(json.dumps(planned.offsets[0].until_offset)) == 9
