"""Tests a Spark task that dies or fails after its COPY: its rows never count, and its records are there once."""

from __future__ import annotations

import signal

import psutil
import pytest

from lockstep.steps.proof.verify import verify
from support.scenes.drill import said, stopped_below
from support.scenes.here import into_two


@pytest.mark.parametrize(
    "fault",
    [
        "task.read_mid=raise",
        pytest.param("task.copy_end=kill", marks=pytest.mark.long),
        pytest.param("task.committed=raise", marks=pytest.mark.long),
        pytest.param("task.committed=kill", marks=pytest.mark.long),
    ],
)
def test_a_task_that_fails_is_tried_again_and_only_the_winner_counts(drill, monkeypatch, fault):
    monkeypatch.setenv("SPARK_MASTER", "local[2,3]")

    answer = drill.run("--spark", fault=fault)

    assert answer["committed"], answer
    assert not list(drill.home.glob("armed-*")), "the fault never happened"
    assert drill.ask("select count(*) from public.drill") == [(150,)]
    assert drill.ask("select records from lockstep.spark_run") == [(150,)], "Spark counts no try that lost"
    assert drill.violations() == []


@pytest.mark.long
@pytest.mark.parametrize("fault", ["task.copy_end=kill", "task.committed=kill"])
def test_a_task_that_dies_for_one_of_two_targets_is_tried_again_for_that_one(drill, monkeypatch, fault):
    monkeypatch.setenv("SPARK_MASTER", "local[2,3]")
    here = into_two(drill)

    answer = said(drill.start("--spark", fault=fault), seconds=240)

    assert answer["committed"], answer
    assert not list(drill.home.glob("armed-*")), "the fault never happened"
    assert drill.ask("select (select count(*) from drill), (select count(*) from newest)") == [(150, 150)]
    checks = verify(here.at.conn, here.at.broker, here.folder, deep=True)
    assert [check for check in checks if not check.ok] == []


@pytest.mark.long
def test_an_interrupt_frees_the_batch_and_takes_the_jvm_with_it(drill):
    process = drill.start("--spark", fault="task.read_mid=stop")
    jvm = running_jvm(process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)

    wait_gone(jvm)
    assert drill.ask("select count(*) from lockstep.attempt where closed_at is null and lease_until > now()") == [(0,)]
    assert drill.run()["decision"] == "Resume"
    assert drill.violations() == []


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_no_jvm_outlives_its_driver(drill, how):
    process = drill.start("--spark", fault="task.read_mid=stop")
    jvm = running_jvm(process)

    process.send_signal(how)
    process.communicate(timeout=30)

    wait_gone(jvm)


def running_jvm(process) -> psutil.Process:
    """Returns the driver's JVM, once a task of it stands still at its fault point."""
    return next(parent for parent in stopped_below(process).parents() if parent.name() == "java")


def wait_gone(jvm: psutil.Process) -> None:
    gone, _ = psutil.wait_procs([jvm], timeout=20)
    assert gone, "the JVM lives on without its driver"
