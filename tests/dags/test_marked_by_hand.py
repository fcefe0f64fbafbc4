"""Tests the tasks behind one that a person has marked as success: they do nothing, and say so in one line."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.adapters.airflow.names import AirflowFailException
from lockstep.airflow import dags_for, door, logs, steps, submit
from lockstep.airflow.dag import assets_of
from lockstep.airflow.door import as_airflow_errors
from lockstep.airflow.history import asked
from lockstep.core.pipeline.definition import Append, Json, Pipeline
from lockstep.core.planning.decisions import Caller, TaskRun
from lockstep.steps.batch.stage import stage
from support.fakes.asset_events import AssetEvents
from support.scenes.here import Here

RUN = TaskRun("drill", "manual__1", "instance", 1, "a task")
CALLER = Caller(str(RUN.owner), key="manual__1", task_run=RUN)


@pytest.fixture
def here(drill):
    made = Here(drill)
    yield made
    made.at.close()


@pytest.fixture
def airflow(here, monkeypatch):
    """Returns Airflow's half of a run of the drill: its events, and its door."""
    events = AssetEvents()
    ti = SimpleNamespace(dag_id="drill", xcom_push=lambda **_: None, xcom_pull=lambda **_: None, task=events.task)
    run = SimpleNamespace(
        run_id="manual__1",
        run_type=SimpleNamespace(value="manual"),
        start_date=None,
        clear_number=0,
        conf={},
        data_interval_start=None,
        data_interval_end=None,
    )
    context = {"ti": ti, "dag_run": run, "params": {}}
    for module in (door, logs, asked):
        monkeypatch.setattr(module, "get_current_context", lambda: context)
    monkeypatch.setattr(steps, "task_caller", lambda: CALLER)
    events.begin(assets_of(here.folder.pipeline))
    context["outlet_events"] = events.told

    @contextmanager
    def opened(_step: str | None = None):
        with as_airflow_errors():
            yield here.at

    opening: Any = SimpleNamespace(pipeline="drill", opened=opened, folder=lambda: here.folder)
    return SimpleNamespace(events=events, door=opening, context=context)


def staging(here: Here) -> int:
    return here.drill.ask("select count(*) from pg_tables where schemaname = 'lockstep_staging'")[0][0]


def test_a_batch_whose_commit_was_marked_is_not_announced_and_can_still_be_committed(here, airflow):
    batch = steps.decide_batch(here.at, here.folder, CALLER).batch_id
    stage(here.at, here.engine, here.folder, batch, CALLER)
    fence = steps.validate_batch(airflow.door, batch)
    tables = staging(here)
    assert tables

    says = rf"batch {batch} is planned, and not committed: nothing is announced  Next: clear the task commit"
    with pytest.raises(AirflowFailException, match=says):
        steps.announce_batch(airflow.door, assets_of(here.folder.pipeline), batch, fence)

    assert dict(airflow.events.told) == {}
    assert staging(here) == tables, "the staged rows wait for their commit"
    steps.commit_validated_batch(airflow.door, batch, fence)
    steps.announce_batch(airflow.door, assets_of(here.folder.pipeline), batch, fence)
    assert [event.extra["batch"] for event in airflow.events.told.values()] == [batch]
    assert staging(here) == 0


def test_behind_a_plan_that_was_marked_no_task_has_a_batch(airflow):
    says = "plan has named no batch: it was marked by hand, or its XCom was deleted  Next: clear the task plan"
    with pytest.raises(AirflowFailException, match=says):
        submit.lead_to(airflow.door)(airflow.context)
    with pytest.raises(AirflowFailException, match=says):
        steps.validate_batch(airflow.door, None)


def test_behind_a_validate_that_was_marked_no_attempt_may_be_committed(here, airflow):
    batch = steps.decide_batch(here.at, here.folder, CALLER).batch_id
    says = rf"validate has let no attempt of batch {batch} pass: it was marked by hand.*  Next: clear the task validate"
    with pytest.raises(AirflowFailException, match=says):
        steps.commit_validated_batch(airflow.door, batch, None)
    with pytest.raises(AirflowFailException, match=says):
        steps.announce_batch(airflow.door, assets_of(here.folder.pipeline), batch, None)


def test_behind_an_ask_that_was_marked_nothing_is_asked_for(airflow):
    says = "ask has asked for nothing: it was marked by hand.*  Next: clear the run"
    with pytest.raises(AirflowFailException, match=says):
        asked.key_of_ask()
    with pytest.raises(AirflowFailException, match=says):
        asked.asks_approval()
    history = dags_for(Pipeline("drill", "t", Json("id string"), Append("public.drill")))[1]
    for name in ("rehearse", "work"):
        task = history.get_task(name)
        context = {"ti": airflow.context["ti"]}
        key = task.render_template(task.application_args[2], context, history.get_template_env())  # type: ignore[arg-type]
        assert key == "", "a template says nothing that a person can use"
