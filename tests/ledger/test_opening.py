"""Tests who may open an attempt, and with which attempt the next process of a run goes on."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller, TaskRun
from lockstep.ledger.admin.same_tries import same_tries
from lockstep.steps.attempt import opening
from lockstep.steps.attempt.pick_up import pick_up

RUN = TaskRun("orders", "r1", "ti", 1)


def batch(**facts: object) -> SimpleNamespace:
    """Returns a planned batch of somebody whose lease is over."""
    return SimpleNamespace(
        **{"batch_id": 1, "pipeline": "orders", "state": "planned", "owner": "other", "lease_is_live": False} | facts
    )


def attempt(**facts: object) -> SimpleNamespace:
    """Returns its newest attempt, of somebody whose lease is over."""
    ours = {"dag_id": None, "dag_run_id": None, "try_number": None}
    return SimpleNamespace(**{"owner": "other", "lease_is_live": False, **ours} | facts)


ASKED = {
    "nobody holds it": (batch(), attempt(), Caller("me"), "free"),
    "its planner holds it": (batch(lease_is_live=True), None, Caller("me"), "Superseded"),
    "an attempt holds it": (batch(), attempt(lease_is_live=True), Caller("me"), "Superseded"),
    "the caller holds it": (batch(owner="me", lease_is_live=True), None, Caller("me"), "free"),
    "a person takes it over": (batch(lease_is_live=True), None, Caller("me", take_over=True), "free"),
    "its holder is gone": (batch(owner="gone", lease_is_live=True), None, Caller("me"), "free"),
    "it is committed": (batch(state="committed"), None, Caller("me"), "Superseded"),
    "it is abandoned": (batch(state="abandoned"), None, Caller("me"), "Refusal"),
}


EU = Caller("orders run r1 of eu", task_run=replace(RUN, airflow="eu"))
US = {"owner": "orders run r1 of us", "dag_id": "orders", "dag_run_id": "r1", "try_number": 2}
ASKED |= {
    "another Airflow's run of the same id holds it": (batch(), attempt(**US, lease_is_live=True), EU, "held by"),
    "the lease of another Airflow's later try is over": (batch(), attempt(**US), EU, "free"),
    "its own later try has it": (batch(), attempt(**US | {"owner": EU.owner}), EU, "later than this one"),
}


@pytest.mark.parametrize(("of", "newest", "caller", "answer"), ASKED.values(), ids=ASKED)
def test_who_may_open_an_attempt(monkeypatch, of, newest, caller, answer):
    monkeypatch.setattr(opening, "is_gone", lambda owner: owner == "gone")
    said = "free"
    try:
        opening.require_free(of, newest, caller)
    except Refusal as refusal:
        said = f"{type(refusal).__name__}: {refusal}"
    assert answer in said


@pytest.mark.parametrize("state", ["open", "superseded", "abandoned"])
def test_an_attempt_that_is_not_ready_is_not_picked_up(conn, ledger, state):
    made = ledger.planned({ledger.stream(0): (0, 10)})
    ledger.opened(made, dag_run="r1")
    if state != "open":
        with transaction(conn, OWNER) as cur:
            cur.execute("update lockstep.attempt set state = %s, closed_at = now()", (state,))
    said = "picked up"
    try:
        pick_up(conn, made, RUN)
    except Refusal as refusal:
        said = str(refusal)
    assert f"which is {state}" in said


def test_a_batch_without_an_attempt_has_nothing_to_pick_up(conn, ledger):
    made = ledger.planned({ledger.stream(0): (0, 10)})
    with pytest.raises(Refusal, match=f"batch {made} has no attempt yet"):
        pick_up(conn, made, RUN)


def test_the_doctor_is_told_of_a_try_that_two_instances_of_one_owner_have_been(conn, ledger):
    made = ledger.planned({ledger.stream(0): (0, 10)})
    facts = "dag_id = 'orders', dag_run_id = 'r1', task_id = 'stage', try_number = 1, opened_at = now()"
    told = []
    for instance, owner in [("a", "orders run r1"), ("b", "orders run r1 of eu"), ("c", "orders run r1")]:
        token = ledger.opened(made)
        with transaction(conn, OWNER) as cur:
            cur.execute(
                f"update lockstep.attempt set {facts}, task_instance_id = %s, owner = %s where token = %s",
                (instance, owner, token),
            )
        told.append(same_tries(conn))
    assert told == [None, None, "try 1 of stage in orders run r1"]
