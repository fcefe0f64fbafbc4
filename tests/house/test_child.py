"""Tests that a child's outcome tells how it ended, even if it could not report it.

A child frees nothing of its parent's.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal

import pytest

from house.child import Child

hooks = []
os.register_at_fork(after_in_child=lambda: [hook() for hook in hooks])


class Client:
    """A stand-in for a Kafka client. It crashes if it is freed in a process that has none of its threads."""

    def __init__(self) -> None:
        self.home, self.itself = os.getpid(), self

    def __del__(self) -> None:
        if os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGSEGV)


@pytest.fixture
def collecting():
    """Makes garbage collection run in the child first, as hooks of libraries that allocate there may do."""
    hooks.append(lambda: [[] for _ in range(10_000)])
    yield
    hooks.clear()


def crashes() -> dict:
    ctypes.string_at(0)
    return {}


def collects() -> dict:
    return {"enabled": gc.isenabled(), "left": gc.collect()}


def test_the_outcome_of_a_child_that_crashes_holds_its_stack(tmp_path):
    outcome = Child.fork(tmp_path / "armed-1", None, crashes).wait()

    assert (outcome.kind, outcome.told["by"]) == ("killed", "SIGSEGV")
    assert "in crashes" in outcome.told["stack"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("collecting")
def test_a_child_leaves_its_parents_garbage_alone_from_the_fork_on(tmp_path):
    gc.collect()
    Client()

    outcome = Child.fork(tmp_path / "armed-1", None, collects).wait()

    assert outcome.kind == "ok", outcome
    assert outcome.told["enabled"]
    assert gc.isenabled()
