"""Tests a Spark task that dies while or after it commits its ranges: another try, or attempt, does the rest."""

from __future__ import annotations

import os
import signal

import pytest

from crash.per_partition import by_partition, committed_ranges, states
from support.scenes.drill import said, stopped_below


@pytest.mark.parametrize(
    "fault",
    [
        "range.done_unacknowledged=kill",
        pytest.param("range.before_copy=kill", marks=pytest.mark.long),
        pytest.param("range.published=kill", marks=pytest.mark.long),
        pytest.param("range.before_commit=kill", marks=pytest.mark.long),
        pytest.param("range.before_commit=raise", marks=pytest.mark.long),
    ],
)
def test_a_worker_that_dies_is_replaced_and_each_range_is_committed_once(drill, monkeypatch, fault):
    monkeypatch.setenv("SPARK_MASTER", "local[2,3]")
    by_partition(drill)

    answer = said(drill.start("--spark", fault=fault), seconds=240)

    assert answer["committed"], answer
    assert not list(drill.home.glob("armed-*")), "the fault never happened"
    assert len(set(committed_ranges(drill).values())) == 1
    assert drill.ask("select count(*), count(distinct id) from public.drill") == [(150, 150)]
    assert drill.violations() == []


@pytest.mark.long
def test_a_zombie_task_is_ended_by_the_next_attempt_and_its_rows_never_appear(drill):
    by_partition(drill)
    driver = drill.start("--spark", fault="range.before_commit=stop")
    worker = stopped_below(driver)
    assert committed_ranges(drill) == {}

    assert drill.run("--take-over")["decision"] == "Resume"  # at once: it need not wait for what the zombie has written
    before = committed_ranges(drill)
    os.kill(worker.pid, signal.SIGCONT)
    driver.communicate(timeout=60)

    assert committed_ranges(drill) == before
    assert len(before) == 3
    assert states(drill) == ["committed"]
    assert drill.ask("select count(*), count(distinct id) from public.drill") == [(150, 150)]
    assert drill.violations() == []
