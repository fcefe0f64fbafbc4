"""Tests that an admission which was interrupted goes on when it is typed again, and is decided once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from lockstep.core.changes.person import Person
from lockstep.core.errors import BadData, BadDefinition, Refusal
from lockstep.core.pipeline.definition import Limits
from lockstep.core.planning.decisions import Caller
from lockstep.core.planning.history import HistoryRun, read_form
from lockstep.core.states import WorkState
from lockstep.steps.changes import decisions
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests import history
from lockstep.steps.requests.work import preview_requests, work
from lockstep.steps.windows.admit import LateWanted, admit_late
from simulation.engine import RememberedEngine
from simulation.scene import COMMITTED
from simulation.world import ME

DECIDED = "select count(*) from lockstep.decision where kind = 'admit-late'"
OPEN = "select count(*) from lockstep.request where closed_at is null"


def counted_once(scene) -> bool:
    assert scene.late() == []
    shown = scene.shown()
    assert (shown[-30, "a"], shown[0, "a"]) == ((4, 2), (4, 2))
    assert scene.violations() == []
    return True


@pytest.mark.parametrize(
    "fault",
    [
        "plan.locked", "plan.ranges_written", "plan.committed", "stage.session_up", "stage.done", "validate.after",
        "commit.locked", "replay.old_deleted", "commit.published", "commit.ledger_written", "commit.done_unacknowledged",
    ],
)  # fmt: skip
def test_e8_an_admission_whose_replay_dies_goes_on_when_it_is_typed_again(scene, fault):
    died = scene.dying("admit", fault=f"{fault}=kill")
    assert died.kind == "killed", died
    scene.admit()
    assert counted_once(scene)
    assert scene.ask(DECIDED) == [(1,)]


def test_e8_an_admission_whose_replay_never_began_goes_on_with_its_request(scene):
    first = admit_late(scene.at.conn, scene.at.broker, scene.folder, ME)
    again = admit_late(scene.at.conn, scene.at.broker, scene.folder, ME)
    assert (again.request_id, again.goes_on) == (first.request_id, True)
    scene.admit()
    assert counted_once(scene)
    assert (scene.ask(DECIDED), scene.ask(OPEN)) == ([(1,)], [(0,)])


def test_an_admission_whose_request_was_closed_has_another_request_and_no_other_decision(scene):
    first = admit_late(scene.at.conn, scene.at.broker, scene.folder, ME)
    decisions.abandon(scene.at.conn, scene.plan_request(first.request_id).batch_id, ME)
    assert scene.ask(OPEN) == [(0,)]
    scene.admit()
    assert counted_once(scene)
    assert scene.ask(DECIDED) == [(1,)]


def later(scene) -> None:
    """Adds a late record to partition 1."""
    scene.put(1, 0, 960)
    scene.done()
    assert [(partition, offset) for partition, offset, _ in scene.late()] == [(0, 3), (0, 3), (1, 3), (1, 3)]


def test_an_admission_of_several_batches_goes_on_with_what_is_left(scene):
    later(scene)
    scene.folder = replace(scene.folder, pipeline=replace(scene.pipeline, limits=Limits(records=1)))
    asked = admit_late(scene.at.conn, scene.at.broker, scene.folder, ME)
    assert scene.on(scene.plan_request(asked.request_id)) == COMMITTED
    assert len(scene.late()) == 2
    assert scene.admit()["decision"] == "Idle"
    assert scene.late() == []
    assert scene.shown()[0, "a"] == (5, 3)
    assert (scene.ask(DECIDED), scene.ask(OPEN)) == ([(1,)], [(0,)])
    assert scene.violations() == []


def test_what_came_late_since_is_decided_by_itself_and_one_replay_counts_both(scene):
    first = admit_late(scene.at.conn, scene.at.broker, scene.folder, ME)
    later(scene)
    second = admit_late(scene.at.conn, scene.at.broker, scene.folder, ME)
    assert second.request_id != first.request_id
    ranges = scene.ask("select jsonb_array_length(detail -> 'ranges') from lockstep.decision where kind = 'admit-late'")
    assert ranges == [(1,), (1,)]
    scene.admit()
    assert scene.late() == []
    assert scene.shown()[0, "a"] == (5, 2)
    scene.end_requests()
    assert (scene.shown()[0, "a"], scene.ask(OPEN)) == ((5, 2), [(0,)])
    assert scene.violations() == []


@pytest.mark.parametrize("admitted", [True, False], ids=["admitted before", "not admitted"])
def test_what_the_log_no_longer_holds_stays_late_and_does_not_hold_the_rest(scene, admitted):
    later(scene)
    if admitted:
        admit_late(scene.at.conn, scene.at.broker, scene.folder, ME)
    scene.log.trim(0, 4)
    assert scene.admit()["decision"] == "Idle"
    assert [(partition, offset) for partition, offset, _ in scene.late()] == [(0, 3), (0, 3)]
    assert scene.shown()[0, "a"] == (4, 2)
    with pytest.raises(Refusal, match="begins below the log's start 4") as refused:
        admit_late(scene.at.conn, scene.at.broker, scene.folder, ME)
    assert "--admit" not in refused.value.next_command
    assert scene.ask(DECIDED) == [(1,)]
    checks = verify(scene.at.conn, scene.at.broker, scene.folder, deep=False)
    assert {check.name: check.detail for check in checks if not check.ok} == {}


def test_only_what_was_named_goes_on(scene):
    later(scene)
    admit_late(scene.at.conn, scene.at.broker, scene.folder, ME, LateWanted(partition=0))
    assert admit_late(scene.at.conn, scene.at.broker, scene.folder, ME, LateWanted(partition=1)).goes_on is False
    assert admit_late(scene.at.conn, scene.at.broker, scene.folder, ME, LateWanted(partition=0)).goes_on is True
    assert admit_late(scene.at.conn, scene.at.broker, scene.folder, ME, LateWanted(partition=2)) is None
    assert scene.ask(DECIDED) == [(2,)]


WHY = "the shop was offline"
RUN = {"action": "admit-late", "approval": True, "reason": WHY}
DECISIONS = "select kind, who, why, detail ->> 'run', detail ->> 'asker' from lockstep.decision order by decision_id"


@pytest.fixture
def run(scene):
    """Returns the tasks of a history run that admits late records: `asked`, `shown`, `approved`, `worked`."""
    ada, caller = Person("ada@house_history", WHY, "manual__1"), Caller("a test", take_over=True)
    engine = RememberedEngine(scene.folder, scene.log, scene.dsn, 1, 0)

    def form_of(form=RUN):
        return read_form(HistoryRun("manual__1", "manual", 0, None, form))

    def asked(form=RUN):
        found = form_of(form)
        return history.open_run_requests(scene.at, scene.folder, found, ada, datetime.now(UTC))

    def shown():
        done = preview_requests(scene.at, engine, scene.folder, "manual__1", caller, print)
        assert done.state == WorkState.DONE, done
        (found,) = history.run_requests(scene.at.conn, "house", ada, preview=True)
        return found.rehearsal.difference

    def approved():
        eve = Person("eve@house_history", "seen", "manual__1")
        history.approve(scene.at.conn, scene.folder, history.Approval(form_of(), "ada", {"id": "eve"}), eve)
        return history.open_approved(scene.at, scene.folder, ada)

    def worked():
        return work(scene.at, engine, scene.folder, "manual__1", caller, print)

    return SimpleNamespace(asked=asked, shown=shown, approved=approved, worked=worked)


def test_a_run_shows_what_an_admission_changes_and_admits_it_behind_an_approval(scene, run):
    before = scene.shown()
    run.asked()
    found = run.shown()
    assert (found["late"], found["targets"]["public.house"]["changed"]) == ({"before": 2, "after": 0}, 2)
    assert (len(scene.late()), scene.shown(), scene.ask(DECIDED)) == (2, before, [(0,)])
    (opened,) = run.approved()
    assert run.approved() == [replace(opened, goes_on=True)], "a second try of the task finds the same request"
    assert run.worked().state == WorkState.DONE
    assert counted_once(scene)
    assert scene.ask(DECISIONS) == [
        ("approve", "eve@house_history", "seen", "manual__1", "ada"),
        ("admit-late", "ada@house_history", "the shop was offline", "manual__1", None),
    ]
    assert scene.ask(OPEN) == [(0,)]


def test_a_preview_that_died_shows_the_same_admission_once_more(scene, run):
    (first,) = run.asked()
    scene.ask("update lockstep.request set closed_at = now() where request_id = %s", first.request_id)
    assert run.shown()["late"] == {"before": 2, "after": 0}
    run.approved()
    run.worked()
    assert counted_once(scene)


def test_a_run_that_asks_nobody_admits_at_once_and_its_second_try_goes_on(scene, run):
    form = RUN | {"approval": False}
    (first,) = run.asked(form)
    assert [each.request_id for each in run.asked(form)] == [first.request_id]
    run.worked()
    assert counted_once(scene)
    assert scene.ask(DECIDED) == [(1,)]


def test_an_approval_does_not_admit_what_has_changed_since_it_was_shown(scene, run):
    run.asked()
    run.shown()
    scene.admit()
    with pytest.raises(BadData, match="what was approved is not what would be done now"):
        run.approved()
    assert scene.ask(DECIDED) == [(1,)]


@pytest.mark.parametrize("form", [{"from_time": "2026-05-01T10:00Z"}, {"reason": None}, {"until_offsets": ["0:3"]}])
def test_a_run_that_contradicts_itself_admits_nothing(run, form):
    with pytest.raises(BadDefinition, match=r"leave bounds out|say why"):
        run.asked(RUN | {"approval": False} | form)
