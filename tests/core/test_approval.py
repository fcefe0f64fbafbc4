"""Tests four eyes: the approver is known, differs from the asker, and is one that the pipeline names."""

from __future__ import annotations

import pytest

from lockstep.core.changes.approval import Approver, approver_of, checked_approvers, refusal
from lockstep.core.errors import BadDefinition
from lockstep.core.planning.history import HistoryRun

BOB = Approver("7", "bob")


ASKED = {
    "another person": ("alice", BOB, (), None),
    "a named person": ("alice", BOB, ("7", "carol"), None),
    "the asker": ("bob", BOB, (), "another person must approve"),
    "the asker in capitals": ("BOB", BOB, (), "another person must approve"),
    "the asker by id, named": ("7", BOB, ("7",), "another person must approve"),
    "not named": ("alice", BOB, ("carol",), "not among the approvers"),
    "named by name": ("alice", BOB, ("bob",), "not among the approvers"),  # users may choose their names
    "nobody": ("alice", None, (), "no record of a user"),
    "asked by nobody": (None, BOB, (), "does not say who asked"),
    "asked by an empty name": ("", BOB, (), "does not say who asked"),
}


@pytest.mark.parametrize(("asker", "approver", "named", "why"), ASKED.values(), ids=ASKED)
def test_an_approval_counts_or_says_why_not(asker, approver, named, why):
    found = refusal(asker, approver, named)
    assert (found is None) if why is None else (why in (found or "it counts"))


@pytest.mark.parametrize(
    ("response", "approver"),
    [
        ({"responded_by_user": {"id": "7", "name": "bob"}}, BOB),
        ({"responded_by_user": {"id": 7, "name": "bob"}}, BOB),
        ({"responded_by_user": None}, None),
        ({"responded_by_user": {"id": None, "name": "ceo"}}, None),
        ({}, None),
    ],
)
def test_the_approver_is_whom_airflow_names(response, approver):
    assert approver_of(response) == approver


@pytest.mark.parametrize("named", ["bob", ("",), (7,), (None,)])
def test_approvers_are_a_tuple_of_ids(named):
    with pytest.raises(BadDefinition, match=r"history\.approvers"):
        checked_approvers(named)
    assert checked_approvers(["7"]) == ("7",)


def test_a_run_has_the_keys_of_its_own_clears_alone():
    run = HistoryRun("manual__1", "manual", 2, None, {})
    assert [run.has_key(key) for key in ("manual__1", "manual__1 cleared 1", "manual__1 cleared 2")] == [True] * 3
    assert not any(run.has_key(key) for key in ("manual__1 cleared 3", "manual__2", "", "manual__1 cleared 0"))
