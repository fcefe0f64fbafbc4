"""Tests the detection of times on a grid, which measure the wait for a contender and not its work."""

from __future__ import annotations

import random
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import versus
from peers import page
from peers.contender import APPEND, PEER, Place, Task
from peers.field import CONTENDERS, FLINK
from peers.flink import Flink
from peers.found import THROUGHPUT, Found, Run
from peers.grid import grids, is_decidable, step_of, times_by_session

# Four recorded runs of the bench, medians of a million and two million records, when `await` looked every two seconds.
RECORDED_FLINK = (
    *(4.942, 6.996, 8.978, 6.953, 13.052, 4.857, 6.886, 8.885, 6.817),
    *(10.927, 4.850, 6.937, 8.978, 6.826, 4.859, 6.998, 8.956, 6.951),
)
RECORDED_AVAILABLE_NOW = (
    *(7.579, 6.483, 10.257, 8.016, 16.115, 6.715, 5.949, 9.007, 6.447),
    *(12.492, 6.429, 5.701, 8.740, 6.618, 6.453, 5.964, 8.959, 6.544),
)
MACHINE = dict.fromkeys(
    ("at", "cores", "memory GiB", "processor", "system", "load", "Python", "Spark", "Postgres", "Kafka", "pyarrow"), "?"
)
FLINK_APPEND = next(each for each in CONTENDERS if each.session == FLINK and each.kind == APPEND)


def looked_for(ends, step):
    """Returns the times of a waiter that looks every `step` seconds, and needs a moment to answer."""
    chance = random.Random(7)  # noqa: S311 - the same each time
    return [(end // step + 1) * step + chance.uniform(0, 0.05 * step) for end in ends]


def ends(seed, number=24):
    """Draws continuous end times, of runs of several sizes."""
    chance = random.Random(seed)  # noqa: S311 - the same each time
    return [chance.choice((1.0, 3.0, 6.0, 12.0)) * chance.uniform(0.8, 1.2) for _ in range(number)]


def test_the_recorded_times_of_flink_lie_on_a_grid_of_two_seconds():
    assert step_of(RECORDED_FLINK) == 2.0


def test_the_recorded_times_of_a_contender_that_is_waited_for_by_an_event_lie_on_none():
    assert step_of(RECORDED_AVAILABLE_NOW) is None


@pytest.mark.parametrize("step", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_waiter_that_looks_every_so_many_seconds_is_found(step, seed):
    times = looked_for([2 * each for each in ends(seed)], step)
    assert step_of(times) == step


def test_continuous_times_lie_on_no_grid():
    assert [step for seed in range(300) if (step := step_of(ends(seed)))] == []


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ([6.0] * 40, "one size that takes as long each time shows no step"),
        ([2.0, 4.0, 6.0, 8.0] * 3, "twelve times may agree by chance"),
        ([0.3, 0.6] * 20, "shorter than the step"),
        ([], "nothing was measured"),
    ],
)
def test_no_grid_is_found_where_the_times_cannot_show_one(times, why):
    assert (step_of(times), is_decidable(times)) == (None, False), why


def flinks(times, part=THROUGHPUT):
    return [Run(part, FLINK_APPEND.name, PEER, APPEND, 1, 1_000_000, 1_000_000, each) for each in times]


def test_warm_ups_and_tunings_count_with_the_rounds_of_the_same_session():
    found = Found(MACHINE, flinks(RECORDED_FLINK[:9]), tries=flinks(RECORDED_FLINK[9:], "warming"))
    assert times_by_session(found)[FLINK] == [*RECORDED_FLINK[9:], *RECORDED_FLINK[:9]]
    assert grids(found) == {FLINK: 2.0}
    assert grids(Found(MACHINE, found.runs)) == {}, "nine times are too few"


@pytest.mark.parametrize(("times", "ends_with"), [(RECORDED_FLINK, 1), (RECORDED_AVAILABLE_NOW, 0)])
def test_the_bench_fails_by_a_grid_and_the_page_says_which(tmp_path, monkeypatch, capsys, times, ends_with):
    Found(MACHINE, flinks(times)).save(tmp_path / "results.json")
    monkeypatch.setattr(versus, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(versus, "PICTURE", tmp_path / "picture.svg")
    monkeypatch.setattr(sys, "argv", ["versus.py", "--again", str(tmp_path / "results.json")])
    assert versus.main() == ends_with
    said = f"times of {FLINK} lie on a grid of 2.0 s"
    assert (said in (tmp_path / "page.md").read_text()) == bool(ends_with)
    assert (said in capsys.readouterr().err) == bool(ends_with)


def test_the_page_names_the_sessions_with_too_few_runs_to_tell():
    assert f"too few runs to tell for {FLINK}" in page.page(Found(MACHINE, flinks(RECORDED_FLINK[:3])))
    assert "all sessions have enough runs to tell" in page.page(Found(MACHINE, flinks(RECORDED_AVAILABLE_NOW)))


class Job:
    """A job of Flink that ends after so many seconds, according to its cluster and its result."""

    def __init__(self, seconds: float, *, is_success: bool = True) -> None:
        self.ended, self.is_success, self.at = threading.Event(), is_success, 0.0
        self.timer = threading.Timer(seconds, self._end)

    def _end(self):
        self.at = time.perf_counter()
        self.ended.set()

    def executeSql(self, _statement):  # noqa: N802 - Flink's name
        self.timer.start()
        identity = SimpleNamespace(getJobID=lambda: "the job")
        return SimpleNamespace(getJobClient=lambda: SimpleNamespace(get=lambda: identity))

    def requestJobResult(self, job):  # noqa: N802 - Flink's name
        assert job == "the job"
        return SimpleNamespace(get=self._result)

    def _result(self):
        assert self.ended.wait(20)
        thrown = SimpleNamespace(getFullStringifiedStackTrace=lambda: "Failed\n  at x\nCaused by: no such table")
        failure = SimpleNamespace(isPresent=lambda: True, get=lambda: thrown)
        return SimpleNamespace(isSuccess=lambda: self.is_success, getSerializedThrowable=lambda: failure)


@pytest.fixture
def task(tmp_path):
    return Task("t", "t1", 1_000, 4, APPEND), Place(tmp_path, "", "", "", 0, tmp_path)


@pytest.mark.parametrize("seconds", [0.05, 0.35, 0.7])
def test_flink_is_waited_for_by_the_end_of_its_job(task, seconds):
    job = Job(seconds)
    Flink(task[1], _tables=job, _cluster=job).run(task[0])
    assert time.perf_counter() - job.at < 0.25, "the first looks of `await` are 0.3 and 0.6 seconds apart"


def test_a_job_of_flink_that_fails_is_told_by_its_cause(task):
    job = Job(0.0, is_success=False)
    with pytest.raises(ValueError, match="Caused by: no such table"):
        Flink(task[1], _tables=job, _cluster=job).run(task[0])
