"""Defines the dangers around a commit, each as one scene. The answer is the outcome that the actor was told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.core.errors import Unreachable
from lockstep.core.offsets import StreamRange
from lockstep.core.planning import live as planning
from lockstep.ledger.batch import commit
from lockstep.ledger.changes import requests
from lockstep.ledger_version import LEDGER_VERSION_SETTING, ledger_version
from lockstep.steps.batch import commit as commit_step
from simulation.guards import OFF, unsaid
from simulation.scene import told

if TYPE_CHECKING:
    from collections.abc import Callable


SAYS_VERSION = f"set {LEDGER_VERSION_SETTING} = '{ledger_version()}';"
DECIDE = """insert into lockstep.decision (pipeline, kind, who, why, detail) select pipeline, '{kind}', 'me', 'because',
    '{{"stream_id": 1, "from_offset": 0, "until_offset": {until}}}' from lockstep.stream where stream_id = 1;"""


def a_zombie_commits(scene, _):
    scene.log.produce(0, 6)
    batch = scene.plan()
    old = scene.validated(batch)
    scene.validated(batch, "another")
    return told(lambda: scene.commit(old))


def the_position_has_moved_on(scene, _):
    scene.log.produce(0, 6)
    attempt = scene.validated(scene.plan())
    scene.ask(
        f"{SAYS_VERSION} {DECIDE.format(kind='skip', until=6)}"
        "insert into lockstep.coverage values (1, int8range(0, 6), 'skipped');"
        "update lockstep.stream set position = 6 where stream_id = 1"
    )
    return told(lambda: scene.commit(attempt))


def a_planner_leaves_offsets_out(scene, monkeypatch):
    right = planning.live_ranges

    def wrong(limits, situation):
        ranges = right(limits, situation)
        return tuple(
            StreamRange(r.stream_id, replace(r.offsets, from_offset=r.offsets.from_offset + 2)) for r in ranges
        )

    monkeypatch.setattr(planning, "live_ranges", wrong)
    scene.log.produce(0, 6)
    return scene.on(scene.plan())


def the_same_offsets_are_planned_twice(scene, _):
    scene.log.produce(0, 6)
    scene.plan("one")
    return _answer(lambda: scene.plan("another"))


def two_replays_take_the_same_segment(scene, _):
    scene.log.produce(0, 6)
    scene.log.produce(1, 6)
    scene.done()
    scene.plan_request(scene.asked("replay", {0: 0}), "one")
    both = scene.asked("replay", {0: 0, 1: 0})
    scene.ask("delete from lockstep.request_window where stream_id = 2")
    return _answer(lambda: scene.plan_request(both, "another"))


def coverage_changes_owner_under_a_plan(scene, monkeypatch):
    scene.log.produce(0, 6)
    scene.log.produce(1, 6)
    scene.done()
    first, second = scene.asked("replay", {0: 0}), scene.asked("replay", {0: 0, 1: 0})
    attempt = scene.validated(scene.plan_request(first))
    due = requests.due
    committed = []

    def commits_behind_the_first_look(cur, request_id):
        found = due(cur, request_id)
        if not committed:
            committed.append(commit_step.commit(scene.other, scene.folder, attempt))
        return found

    monkeypatch.setattr(requests, "due", commits_behind_the_first_look)
    OFF["taken"](scene, monkeypatch)
    return scene.on(scene.plan_request(second))


def a_fill_takes_what_is_lost(scene, _):
    scene.log.produce(0, 10)
    scene.plan()
    scene.abandon()
    scene.ask(
        f"{SAYS_VERSION} {DECIDE.format(kind='accept-loss', until=4)}"
        "insert into lockstep.coverage values (1, int8range(0, 4), 'loss');"
        "update lockstep.stream set position = 4 where stream_id = 1"
    )
    scene.done()
    request = scene.asked("fill", {0: 0})
    return scene.on(scene.plan_request(request)) if request else "nothing to fill"


def a_replay_writes_positions(scene, monkeypatch):
    scene.log.produce(0, 6)
    scene.done()
    scene.log.produce(0, 6)
    scene.done()
    write = commit.write_ledger
    monkeypatch.setattr(commit, "write_ledger", lambda cur, attempt, _, *done: write(cur, attempt, "live", *done))  # type: ignore[arg-type]
    return scene.on(scene.plan_request(scene.asked("replay", {0: 0}, {0: 6})))


def a_replay_covers_nothing(scene, monkeypatch):
    scene.log.produce(0, 6)
    scene.done()
    unsaid(commit.Q, "insert_coverage", instead="select 1")(scene, monkeypatch)
    return scene.on(scene.plan_request(scene.asked("replay", {0: 0})))


def half_a_batch_is_committed(scene, monkeypatch):
    scene.log.produce(0, 6)
    scene.log.produce(1, 6)
    scene.done()
    whole = commit.Q["insert_commits"]
    monkeypatch.setitem(commit.Q, "insert_commits", f"{whole} limit 1")
    return scene.on(scene.plan_request(scene.asked("replay", {0: 0, 1: 0})))


def staged_rows_disappear(scene, _):
    scene.log.produce(0, 6)
    attempt = scene.validated(scene.plan())
    scene.ask(f"set role lockstep_stager; delete from lockstep_staging.{attempt.table} where _offset = 3")
    return told(lambda: scene.commit(attempt))


def staged_rows_are_changed(scene, _):
    scene.log.produce(0, 6)
    attempt = scene.validated(scene.plan())
    scene.ask(f"set role lockstep_stager; update lockstep_staging.{attempt.table} set n = 999 where _offset = 3")
    return told(lambda: scene.commit(attempt))


def a_row_is_there_already(scene, _):
    scene.log.produce(0, 6)
    scene.ask("insert into public.house values ('stray', 1, 1, 1, 3, 0, 0)")
    return scene.on(scene.plan())


def the_log_is_another_one(scene, _):
    scene.log.produce(0, 6)
    scene.done()
    scene.remember()
    scene.log.recreate()
    scene.log.produce(0, 9)
    return scene.on(scene.plan())


def records_are_trimmed_under_the_read(scene, _):
    scene.log.produce(0, 6)
    attempt = scene.staged(scene.plan())
    scene.log.trim(0, 3)

    def goes_on():
        scene.validate(attempt)
        scene.commit(attempt)

    return told(goes_on)


def the_acknowledgement_is_lost(scene, monkeypatch):
    scene.log.produce(0, 6)
    attempt = scene.validated(scene.plan())
    left = [Unreachable("the line is dead")]

    def reach(point):
        if point == "commit.done_unacknowledged" and left:
            raise left.pop()

    monkeypatch.setattr(commit_step, "reach", reach)
    return told(lambda: scene.commit(attempt))


def _answer(plan: Callable) -> str:
    answers = []
    refused = told(lambda: answers.append(plan()))
    return repr(answers[0].decision) if answers else refused
