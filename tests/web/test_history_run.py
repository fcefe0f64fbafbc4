"""Tests the tab of a history run: what its previews found, what was decided, and its own batches."""

from __future__ import annotations

import pytest

from lockstep.core.changes.person import Person
from support.scenes.history_run import Run
from web.answers import said

PAGE = "/dags/drill_history/runs/{}"


@pytest.fixture
def read(here):
    """Returns the drill with its 150 records in the table."""
    here.drain()
    return here


def test_a_run_that_has_changed_nothing_says_so_and_names_the_task_whose_log_says_why(pages):
    words = said(pages(PAGE.format("manual__1")))
    assert "This run has changed nothing" in words
    assert "The log of its task ask says which" in words
    assert "plan" not in words


def test_a_preview_is_on_its_runs_tab_with_counts_offsets_and_the_first_rows_that_differ(pages, read):
    run = Run(read, action="replay", partition=0, preview=True)
    run.ask()
    assert "What would change is not known yet: the task rehearse finds it" in said(pages(PAGE.format("manual__1")))
    read.code = lambda record: {**record, "n": record["n"] + 1000}
    assert run.rehearse().state == "done"
    ((_, span, count),) = read.drill.ask(
        "select topic, upper(offsets) - lower(offsets), (select count(*) from public.drill d where d._stream = w.stream_id)"
        " from lockstep.request_window w join lockstep.stream using (stream_id)"
    )

    answer = pages(PAGE.format("manual__1"), follow_redirects=False)

    words = said(answer)
    assert answer.status_code == 200
    assert "Preview: replay" in words
    assert "Asked for by ada@drill_history: a test" in words
    assert f"public.drill 0 {count} 0 0" in words, "added, changed, removed, unchanged"
    assert "Rejects: 0 before, 0 after." in words
    assert f"{read.drill.topic}-0 [0, {span}) {span}" in words
    ((least,),) = read.drill.ask(
        "select min(n) from public.drill join lockstep.stream on stream_id = _stream where partition = 0"
    )
    assert f"n {least} ·" in words, "the first row, as it is"
    assert f"n {least + 1000} ·" in words, "and as it would be"
    assert "No batch" not in words
    assert "plan" not in words


def test_the_tab_of_an_approved_run_has_the_difference_who_approved_and_its_batch(pages, read):
    run = Run(read, action="replay", partition=0, approval=True)
    run.ask()
    run.rehearse()
    run.approve()
    run.work()
    ((batch,),) = read.drill.ask("select batch_id from lockstep.batch where lane = 'replay' and state = 'committed'")

    answer = pages(PAGE.format("manual__1"), follow_redirects=False)

    words = said(answer)
    assert "approve bob@drill_history" in words
    assert "Preview: replay" in words
    assert answer.text.count(f"/lockstep/dags/drill_history/batches/{batch}") == 1


def test_a_run_whose_id_a_live_run_has_too_shows_no_batch_of_that_one(pages, here):
    here.run(key="manual__1")
    assert "/batches/" in pages("/dags/drill/runs/manual__1", follow_redirects=False).headers["location"]
    assert "This run has changed nothing" in said(pages(PAGE.format("manual__1")))


def test_what_a_run_asked_for_before_it_was_cleared_is_its_own_and_another_runs_is_not(pages, read):
    Run(read, "manual__1", action="replay", partition=0, preview=True).ask()
    Run(read, "manual__1", clear_number=1, action="replay", partition=1, preview=True).ask()
    Run(read, "manual__12", action="fill", preview=True).ask()

    words = said(pages(PAGE.format("manual__1")))

    assert words.count("Preview: replay") == 2
    assert "Preview: fill" not in words


def test_a_skip_is_told_with_its_reason_and_no_reason_is_taken_for_markup(pages, read, produce, monkeypatch):
    produce(read.drill.topic, [("k", '{"id": "late", "n": 1}')] * 5, partition=1)
    monkeypatch.setattr(Run, "person", lambda _: Person("ada@drill_history", "<b>old</b>", "manual__3"))
    Run(read, "manual__3", action="skip").decide()

    answer = pages(PAGE.format("manual__3"))

    assert "skip ada@drill_history" in said(answer)
    assert "<b>old</b>" not in answer.text
    assert "&lt;b&gt;old&lt;/b&gt;" in answer.text
