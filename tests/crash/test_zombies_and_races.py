"""Tests that only the newest attempt of a batch commits, although two copies of a run may live."""

from __future__ import annotations

import json
import os
import signal

import pytest

from support.scenes.drill import said, wait_stopped


@pytest.mark.parametrize("point", ["stage.session_up", "stage.done", "validate.after"])
def test_a_zombie_continued_after_another_attempt_committed_changes_nothing(drill, point):
    zombie = drill.start(fault=f"{point}=stop")
    wait_stopped(zombie)

    assert drill.run("--take-over")["decision"] == "Resume"
    committed = drill.committed()
    os.kill(zombie.pid, signal.SIGCONT)
    answer = said(zombie)

    assert answer["superseded"], answer
    assert drill.committed() == committed
    assert drill.ask("select count(*) from public.drill") == [(150,)]
    assert drill.violations() == []


def test_a_committer_stopped_with_the_lock_in_its_hand_is_freed_of_it(drill):
    zombie = drill.start(fault="commit.published=stop")
    wait_stopped(zombie)

    assert drill.run("--until-idle", "--take-over")["decision"] == "Idle"
    os.kill(zombie.pid, signal.SIGCONT)
    said(zombie)

    assert len(drill.committed()) == 1
    assert drill.ask("select count(*) from public.drill") == [(150,)]
    assert drill.violations() == []


def test_a_live_holder_keeps_others_out_and_they_say_so(drill):
    holder = drill.start(fault="stage.session_up=stop")
    wait_stopped(holder)

    answer = drill.run()

    assert answer["decision"] == "Busy"
    os.kill(holder.pid, signal.SIGCONT)
    assert said(holder)["committed"]
    assert drill.violations() == []


@pytest.mark.parametrize("runners", [2, 4])
def test_runners_at_once_share_the_batches_and_double_nothing(drill, produce, runners):
    produce(drill.topic, [(f"k{i}", json.dumps({"id": f"s{i}", "n": i})) for i in range(1_000)])

    answers = [said(process) for process in [drill.start("--until-idle") for _ in range(runners)]]

    assert {answer["decision"] for answer in answers} <= {"Idle", "Busy"}
    worked = [batch for answer in answers for batch in answer["committed"]]
    assert sorted(worked) == [batch for batch, _ in drill.committed()]
    assert drill.ask("select count(*) from public.drill") == [(1_150,)]
    assert drill.violations() == []


def test_an_interrupt_frees_the_batch_for_the_next_run(drill):
    process = drill.start(fault="stage.done=stop")
    wait_stopped(process)
    os.kill(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGCONT)
    process.communicate(timeout=30)

    answer = drill.run()

    assert answer["decision"] == "Resume"
    assert drill.violations() == []
