"""Tests what the scheduler writes into a run of a backfill when it starts it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.serialization.serialized_objects import DagSerialization

from lockstep import Append, Json, Pipeline
from lockstep.adapters.airflow import backfills
from lockstep.airflow import dag_for
from lockstep.airflow.history.approval import RecordedApproval
from lockstep.airflow.history.dag import history_for
from lockstep.web.plugin import LockstepPlugin

ORDERS = Pipeline(name="orders", topic="orders.v1", format=Json("id string"), target=Append("public.orders"))


def started(dag, behavior: str | None, conf: dict[str, Any] | None = None) -> Any:
    """Returns the conf of a run that the scheduler has started."""
    known = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    backfill = SimpleNamespace(reprocess_behavior=behavior) if behavior else None
    run = SimpleNamespace(dag=known, backfill=backfill, conf=conf)
    backfills.on_dag_run_running(run)  # type: ignore[arg-type]
    return run.conf


@pytest.mark.parametrize("behavior", ["none", "failed", "completed"])
def test_a_run_of_a_backfill_has_its_behavior_beside_what_it_was_given(behavior):
    history = history_for(ORDERS, tags=["ours"])
    assert started(history, behavior) == {"reprocess_behavior": behavior}
    given = {"action": "fill", "reprocess_behavior": "of an earlier backfill"}
    assert started(history, behavior, given) == {"action": "fill", "reprocess_behavior": behavior}


def test_other_runs_and_other_dags_keep_their_conf():
    assert started(history_for(ORDERS), None) is None
    assert started(dag_for(ORDERS), "completed", {"a": 1}) == {"a": 1}


def test_a_history_dag_is_known_by_its_approval_and_the_plugin_brings_the_listener():
    assert RecordedApproval.__name__ == backfills.APPROVAL_OPERATOR
    assert LockstepPlugin.listeners == [backfills]
