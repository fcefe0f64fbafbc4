"""Tests a run whose steps are separate processes: each hands the batch to the next, and no other takes it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.core.changes.person import Person
from lockstep.core.errors import BadData, Superseded, Unreachable
from lockstep.core.planning.decisions import Busy, Caller, Done, Resume, Start, TaskRun
from lockstep.steps.attempt.pick_up import pick_up, require_planned
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.changes.decisions import abandon
from lockstep.steps.context import Context
from support.fakes.plain_engine import PlainEngine

MINUTE = 60


def run_of(run_id: str, try_number: int = 1, **allowed: bool) -> Caller:
    task_run = TaskRun("drill", run_id, f"{run_id}-{try_number}", try_number)
    return Caller(task_run.owner, key=run_id, task_run=task_run, **allowed)


class House:
    """The steps of one pipeline as Airflow's tasks call them, in one process."""

    def __init__(self, drill) -> None:
        self.drill = drill
        self.at = Context(drill.dsn, Broker(drill.kafka))

    def plan(self, caller: Caller):
        return plan(self.at.conn, self.at.broker, load("drill"), caller, datetime.now(UTC))

    def stage(self, caller: Caller, batch_id: int):
        folder = load("drill")
        return stage(self.at, PlainEngine(folder, self.drill.kafka, self.drill.dsn), folder, batch_id, caller)

    def validate(self, attempt, at: Context | None = None) -> None:
        validate(at or self.at, load("drill"), attempt, hands_over=True)

    def commit(self, attempt) -> None:
        commit(self.at, load("drill"), attempt)

    def minutes_held(self, attempt) -> float:
        query = "select extract(epoch from lease_until - clock_timestamp()) from lockstep.attempt where token = %s"
        return float(self.drill.ask(query, attempt.token)[0][0]) / MINUTE


@pytest.fixture
def house(drill):
    made = House(drill)
    yield made
    made.at.close()


def test_five_tasks_of_a_run_commit_one_batch_and_the_cleared_run_finds_it_done(house):
    first = run_of("r1")
    planned = house.plan(first)
    assert isinstance(planned.decision, Start)

    staged = house.stage(first, planned.batch_id)
    found = pick_up(house.at.conn, planned.batch_id, first.task_run)
    assert (found.attempt, found.state) == (staged, "staged")
    house.validate(staged)
    house.commit(staged)

    assert house.plan(first).decision == Done(planned.batch_id)
    assert house.drill.violations() == []


def test_between_two_tasks_the_batch_is_held_for_its_own_run(house):
    first, second = run_of("r1"), run_of("r2")
    batch_id = house.plan(first).batch_id
    assert isinstance(house.plan(second).decision, Busy)

    attempt = house.stage(first, batch_id)
    assert 9 < house.minutes_held(attempt) <= 10
    assert isinstance(house.plan(second).decision, Busy)
    with pytest.raises(Superseded, match="held by drill run r1"):
        house.stage(second, batch_id)
    assert house.plan(first).decision == Resume(batch_id)


def test_a_plan_that_is_tried_again_finds_its_own_batch(house):
    first = run_of("r1")
    batch_id = house.plan(first).batch_id
    assert house.plan(first).decision == Resume(batch_id)


def test_each_taking_over_doubles_the_time_to_pick_up(house):
    first, second = run_of("r1"), run_of("r2", take_over=True)
    batch_id = house.plan(first).batch_id
    house.stage(first, batch_id)

    house.plan(second)
    attempt = house.stage(second, batch_id)

    assert 19 < house.minutes_held(attempt) <= 20
    with pytest.raises(Superseded, match="of drill run r2"):
        pick_up(house.at.conn, batch_id, first.task_run)


def test_an_older_try_never_supersedes_a_newer_one(house):
    batch_id = house.plan(run_of("r1")).batch_id
    newer = house.stage(run_of("r1", try_number=2), batch_id)

    with pytest.raises(Superseded, match="try 2 of this task"):
        house.stage(run_of("r1", try_number=1), batch_id)

    house.validate(newer)
    house.commit(newer)
    assert house.drill.violations() == []


def test_a_later_try_of_the_same_task_goes_on_at_once(house):
    batch_id = house.plan(run_of("r1")).batch_id
    older = house.stage(run_of("r1"), batch_id)

    newer = house.stage(run_of("r1", try_number=2), batch_id)

    with pytest.raises(Superseded):
        house.validate(older)
    house.validate(newer)
    house.commit(newer)
    assert house.drill.violations() == []


def test_validate_and_commit_tried_again_open_nothing_and_say_the_same(house):
    first = run_of("r1")
    batch_id = house.plan(first).batch_id
    attempt = house.stage(first, batch_id)
    house.validate(attempt)
    assert pick_up(house.at.conn, batch_id, first.task_run).state == "validated"

    house.commit(attempt)
    house.commit(attempt)

    assert pick_up(house.at.conn, batch_id, first.task_run).state == "committed"
    assert house.drill.ask("select count(*) from lockstep.attempt") == [(1,)]
    with pytest.raises(Superseded, match="already committed"):
        require_planned(house.at.conn, batch_id)


def test_an_attempt_that_data_has_failed_is_not_picked_up(house):
    first = run_of("r1")
    batch_id = house.plan(first).batch_id
    attempt = house.stage(first, batch_id)
    house.drill.ask("update lockstep.manifest set written = 0, rejected = written where true returning 1")
    with pytest.raises(BadData):
        house.validate(attempt)

    with pytest.raises(BadData, match="max_reject_share"):
        pick_up(house.at.conn, batch_id, first.task_run)
    assert house.plan(run_of("r2")).decision == Resume(batch_id)


def test_a_validate_that_nobody_answered_is_tried_again_on_the_same_attempt(house, monkeypatch):
    monkeypatch.setattr("lockstep.adapters.kafka.client.ANSWER_SECONDS", 1.0)
    first = run_of("r1")
    batch_id = house.plan(first).batch_id
    attempt = house.stage(first, batch_id)
    deaf = Context(house.drill.dsn, Broker("127.0.0.1:1"))
    with pytest.raises(Unreachable):
        house.validate(attempt, deaf)
    deaf.close()

    house.validate(pick_up(house.at.conn, batch_id, first.task_run).attempt)
    house.commit(attempt)

    assert house.drill.violations() == []


def test_an_abandoned_batch_is_refused_before_spark_is_asked(house):
    batch_id = house.plan(run_of("r1")).batch_id
    abandon(house.at.conn, batch_id, Person("tester", "a test"))
    with pytest.raises(BadData, match="was abandoned"):
        require_planned(house.at.conn, batch_id)
