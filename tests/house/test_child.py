"""A child's outcome tells how it ended, also when it could not tell it itself, and a child frees nothing of its parent's."""

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
    """Stands for a Kafka client: freed in a process that has none of its threads, it crashes."""

    def __init__(self) -> None:
        self.home, self.itself = os.getpid(), self

    def __del__(self) -> None:
        if os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGSEGV)


@pytest.fixture
def collecting():
    """Hooks of libraries allocate in a child before anything else runs there, and so may collect garbage."""
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
