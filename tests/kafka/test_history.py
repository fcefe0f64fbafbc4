"""Tests the steps of a history run: recording, showing, approval and work, with a real broker and ledger."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from psycopg2 import errors

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.errors import BadData, Refusal
from lockstep.core.planning.decisions import Caller, Start
from lockstep.ledger.changes import history as ledger
from lockstep.steps.changes import decisions
from lockstep.steps.changes.retire import retire
from lockstep.steps.requests import history
from lockstep.steps.requests.plan_request import plan_request
from support.scenes.history_run import Run
from support.scenes.odd_logs import recreate

SEGMENTS = """select partition, lower(offsets), upper(offsets), batch_id
              from lockstep.coverage join lockstep.stream using (stream_id) order by 1, 2"""


def rows(here):
    return here.drill.ask("select id, n, _stream, _offset, _batch from public.drill order by 1")


@pytest.fixture
def read(here):
    """Returns the drill with its 150 records in the table."""
    here.drain()
    return here


def test_a_run_that_is_tried_again_goes_on_with_its_request_and_a_cleared_one_asks_anew(read):
    run = Run(read, action="replay", partition=0)
    (asked,) = run.ask()
    (again,) = run.ask()
    assert (again.request_id, again.goes_on, again.windows) == (asked.request_id, True, asked.windows)
    assert run.work().state == "done"
    assert run.ask()[0].request_id == asked.request_id, "also when all of it is done"
    first = rows(read)

    (cleared,) = Run(read, clear_number=1, action="replay", partition=0).ask()
    assert cleared.request_id != asked.request_id
    assert Run(read, clear_number=1, action="replay", partition=0).work().state == "done"

    assert [row[:4] for row in rows(read)] == [row[:4] for row in first]
    assert {row[4] for row in rows(read)} != {row[4] for row in first}
    assert read.drill.violations() == []


def test_what_a_replay_does_beyond_what_was_asked_for_is_known_by_partition(read):
    def wider(**form: Any) -> list[tuple[int, int, int]]:
        run = Run(read, f"manual__{form}", action="replay", preview=True, **form)
        run.ask()
        found = history.widened_stretches(read.at.conn, run.asked, run.shown())
        return [(each.offsets.topic_partition.partition, each.offsets.span, each.asked) for each in found]

    whole = dict(read.drill.ask("select partition, position from lockstep.stream"))

    assert wider(from_offsets=["0:5"], until_offsets=["0:9"]) == [(0, whole[0], 4)]
    assert wider(from_offsets=["0:5", "1:0"]) == [(0, whole[0], whole[0] - 5)]
    assert wider(partition=1) == []
    assert wider(from_time="2020-01-01") == [], "the time is resolved, and nothing lies before it"


def test_two_runs_that_ask_for_the_very_same_share_one_request(read):
    (one,) = Run(read, "one", action="replay", partition=0).ask()
    (two,) = Run(read, "two", action="replay", partition=0).ask()
    assert one.request_id == two.request_id
    assert Run(read, "one", action="replay", partition=0).work().state == "done"
    assert Run(read, "two", action="replay", partition=0).work().state == "done"
    lanes = read.drill.ask("select lane, count(*) from lockstep.batch group by 1 order by 1")
    assert lanes == [("live", 1), ("replay", 1)]


def test_a_run_that_was_deleted_and_made_anew_under_its_id_is_a_wish_of_its_own(read):
    """So it is with a backfill of a day whose run was deleted, or cleaned out of Airflow's database."""
    began = datetime.now(UTC)
    first = Run(read, "backfill__1", started=began, action="replay", partition=0)
    (one,) = first.ask()
    first.work()
    (known,) = first.ask()
    assert (known.request_id, known.is_closed) == (one.request_id, True), "a try that comes later"

    anew = Run(read, "backfill__1", started=began + timedelta(days=1), action="replay", partition=0)
    (two,) = anew.ask()

    assert two.request_id != one.request_id
    assert [each.request_id for each in anew.ask()] == [two.request_id], "and so does each try of it"
    assert anew.work().state == "done"
    lanes = read.drill.ask("select lane, count(*) from lockstep.batch group by 1 order by 1")
    assert lanes == [("live", 1), ("replay", 2)]
    assert anew.run.has_key(anew.key)
    assert not Run(read, "backfill__2", action="replay").run.has_key(anew.key)
    with transaction(read.at.conn, READER) as cur:
        found = [row.request_id for row in ledger.requests_of_run(cur, "drill", "backfill__1")]
    assert found == [one.request_id, two.request_id], "the page of the run has both"


def test_a_fill_of_what_is_covered_asks_for_nothing(read):
    run = Run(read, action="fill")
    assert run.ask() == []
    assert run.work().state == "done"
    assert read.drill.ask("select count(*) from lockstep.request") == [(0,)]


def test_a_fill_of_what_is_covered_asks_for_nothing_while_others_work_on_it_or_ahead_of_it(read, produce):
    replay = read.ask("replay", "0:0", "0:1")
    plan_request(read.at.conn, read.at.broker, read.folder, replay.request_id, Caller("somebody"))
    produce(read.drill.topic, [("k", '{"id": "late", "n": 1}')] * 5, partition=1)
    assert isinstance(read.plan(), Start)
    claims = read.drill.ask("select lane, count(*) from lockstep.claim join lockstep.batch using (batch_id) group by 1")
    assert {lane for lane, _ in claims} == {"live", "replay"}

    assert Run(read, "backfill__1", action="fill").ask() == []
    assert Run(read, "backfill__2", action="fill", until_offsets=["0:9"]).ask() == []

    assert read.drill.ask("select lane from lockstep.request") == [("replay",)]


def test_a_fill_of_what_another_fill_is_reading_asks_for_it(here):
    here.plan()
    here.skip()
    fill = here.ask("fill")
    plan_request(here.at.conn, here.at.broker, here.folder, fill.request_id, Caller("somebody"))
    (asked,) = Run(here, "backfill__1", action="fill", partition=0).ask()
    assert asked.request_id != fill.request_id
    (window,) = asked.windows
    assert window.offsets.topic_partition.partition == 0


def test_the_attempt_names_the_run_and_holds_its_batch_no_longer_than_its_process_lives(read):
    run = Run(read, action="replay", partition=0)
    run.ask()
    run.work()
    ((dag_id, run_id, held),) = read.drill.ask(
        "select dag_id, dag_run_id, b.lease_until - b.planned_at < interval '1 minute' from lockstep.attempt a"
        " join lockstep.batch b using (batch_id) where b.lane = 'replay'"
    )
    assert (dag_id, run_id, held) == ("drill_history", "manual__1", True)


def test_what_was_rehearsed_is_kept_and_what_was_approved_is_done_with_who_approved_it(read):
    before, run = rows(read), Run(read, action="replay", partition=0, approval=True)
    (preview,) = run.ask()
    read.code = lambda value: value | {"n": value["n"] * 2}
    assert run.rehearse().state == "done"
    assert run.rehearse().state == "done", "a later try finds it"
    (shown,) = run.shown()
    assert shown.rehearsal.difference["changed"] > 0
    assert (
        shown.rehearsal.difference["samples"][0]["after"]["n"]
        == 2 * shown.rehearsal.difference["samples"][0]["before"]["n"]
    )
    assert rows(read) == before
    assert run.work().state == "done", "nothing is asked for before it is approved"
    assert rows(read) == before

    (asked,) = run.approve()
    assert run.approve() == [asked] or run.approve()[0].request_id == asked.request_id
    assert (asked.windows, asked.request_id != preview.request_id) == (preview.windows, True)
    assert run.work().state == "done"

    assert (
        sum(old[1] != new[1] for old, new in zip(before, rows(read), strict=True))
        == shown.rehearsal.difference["changed"]
    )
    ((who, detail),) = read.drill.ask("select who, detail from lockstep.decision where kind = 'approve'")
    assert who == "bob@drill_history"
    both = {"asker": "alice", "approver": None}
    assert detail == both | {"action": "replay", "previews": [preview.request_id], "run": "manual__1"}
    assert read.drill.ask("select who from lockstep.request where not preview") == [("ada@drill_history",)]
    assert read.drill.violations() == []


def test_a_rehearsal_whose_process_died_is_done_again_over_the_same_offsets(read):
    run = Run(read, action="replay", partition=0, preview=True)
    (first,) = run.ask()
    with transaction(read.at.conn, PLANNER) as cur:
        cur.execute("update lockstep.request set closed_at = now() where request_id = %s", (first.request_id,))
    assert run.rehearse().state == "done"
    (shown,) = run.shown()
    assert shown.request_id != first.request_id
    assert (shown.windows, shown.rehearsal.difference["unchanged"] > 0) == (first.windows, True)


def test_what_has_changed_since_it_was_shown_is_not_taken_for_approved(read):
    run = Run(read, action="replay", partition=0, approval=True)
    run.ask()
    with pytest.raises(BadData, match="was not rehearsed"):
        run.approve()
    run.rehearse()
    read.replay("0:0")
    with pytest.raises(BadData, match="batch 3 has committed offsets of it since"):
        run.approve()
    assert read.drill.ask("select count(*) from lockstep.decision where kind = 'approve'") == [(0,)]

    other = Run(read, "manual__2", action="replay", partition=1, approval=True)
    other.ask()
    other.rehearse()
    (read.drill.home / "drill" / "transform.py").write_text("def transform(records):\n    return records\n")
    with pytest.raises(BadData, match="the pipeline's code has changed since"):
        other.approve()


@pytest.mark.parametrize("again", ["approve", "rehearse"])
def test_a_log_that_was_closed_since_it_was_shown_is_asked_for_no_more(read, again):
    run = Run(read, action="replay", partition=0, approval=True)
    (preview,) = run.ask()
    if again == "approve":
        assert run.rehearse().state == "done"
    else:
        with transaction(read.at.conn, PLANNER) as cur:
            cur.execute("update lockstep.request set closed_at = now() where request_id = %s", (preview.request_id,))
    recreate(read.drill.kafka, read.drill.topic)
    retire(read.at.conn, read.at.broker, read.folder.pipeline, None, run.person("eve"))

    with pytest.raises(Refusal, match="-0: its log is not the one that was looked at, and cannot be read again"):
        getattr(run, again)()

    assert read.drill.ask("select request_id from lockstep.request where closed_at is null") == []


def test_a_paused_pipeline_is_neither_rehearsed_nor_done_and_says_who_paused_it(read):
    run = Run(read, action="replay", partition=0)
    run.ask()
    shown = Run(read, "manual__2", action="replay", partition=0, preview=True)
    shown.ask()
    decisions.pause(read.at.conn, "drill", run.person("eve"))
    assert (run.work().state, run.work().reason) == ("waits", "paused by eve@drill_history: a test")
    with pytest.raises(Refusal, match=r"paused by eve.*unpause drill"):
        shown.rehearse()
    assert shown.shown()[0].rehearsal is None


def test_a_skip_is_done_once_for_a_run_however_often_its_task_is_tried(here, produce):
    here.plan()
    run = Run(here, action="skip", reason="r")
    assert (len(run.decide()), run.changed) == (3, True)
    produce(here.drill.topic, [("k", json.dumps({"id": "new", "n": 1}))])
    assert run.decide() == ["drill: this run has skipped already; another skip is another run"]
    assert not run.changed, "a task that is cleared is skipped"
    here.drain()
    assert [row[0] for row in rows(here)] == ["new"]
    assert here.drill.ask("select distinct detail ->> 'run' from lockstep.decision") == [("manual__1",)]


def test_a_loss_is_shown_with_position_and_log_start_and_accepted_once(here):
    here.plan()
    admin = AdminClient({"bootstrap.servers": here.drill.kafka})
    for future in admin.delete_records([TopicPartition(here.drill.topic, 0, 4)]).values():
        future.result(20)
    form = {"action": "accept-loss", "reason": "r", "from_offsets": ["0:0"], "until_offsets": ["0:4"]}
    run = Run(here, approval=True, **form)  # type: ignore[arg-type]

    (row,) = history.given_up_offsets(here.at, here.folder.pipeline, run.asked)

    assert (row["position"], row["log_start"], row["until_offset"]) == (0, 4, 4)
    history.approve(here.at.conn, here.folder, history.Approval(run.asked, "alice", None), run.person("bob"))
    assert "is recorded as lost; the position is 4" in run.decide()[0]
    assert run.changed
    assert "was accepted as lost already" in run.decide()[0]
    assert not run.changed
    kinds = here.drill.ask("select kind, who from lockstep.decision where kind <> 'abandon' order by decision_id")
    assert kinds == [("approve", "bob@drill_history"), ("accept-loss", "ada@drill_history")]


def test_only_a_preview_is_rehearsed_whatever_the_code_says(read):
    (asked,) = Run(read, action="replay", partition=0).ask()
    with pytest.raises(errors.CheckViolation, match="rehearsed_is_preview"), transaction(read.at.conn, PLANNER) as cur:
        ledger.insert_rehearsal(cur, asked.request_id, "x", {})
