"""Tests that the way of a batch is said before it runs, and kept with each attempt."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("here")


def test_the_way_of_a_batch_is_said_before_it_and_kept_with_its_attempts(lockstep):
    planned = lockstep("plan", "drill", "--dry-run", "--json").document
    because = "a reader of the tests"
    assert planned["route"] == {"way": "process", "because": because}
    assert f"  route: process: {because}" in lockstep("plan", "drill", "--dry-run").out.splitlines()

    batch = lockstep("run", "drill", "--json").document["batch"]

    (attempt,) = lockstep("batch", str(batch), "--json").document["attempts"]
    assert attempt["route"] == planned["route"]
    assert f"  route: process: {because}" in lockstep("batch", str(batch)).out.splitlines()


def test_why_a_batch_has_its_size_is_said_before_it_and_when_it_ran(lockstep):
    because = "  because: all 150 waiting offsets"
    assert because in lockstep("plan", "drill", "--dry-run").out.splitlines()
    assert because in lockstep("run", "drill").out.splitlines()


def test_a_plan_of_nothing_has_no_route(here, lockstep):
    here.drain()
    planned = lockstep("plan", "drill", "--dry-run", "--json").document
    assert (planned["decision"], "route" in planned) == ("idle", False)


def test_check_says_the_way_of_a_definition(lockstep):
    (checked,) = lockstep("check", "drill", "--json").document["pipelines"]
    assert checked["route"]["way"] == "process"
    assert "  route: process: LOCKSTEP_ENGINE is process; this process reads" in lockstep("check", "drill").out
