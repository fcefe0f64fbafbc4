"""Tests that a child's outcome tells how it ended, even if it could not report it.

A child frees nothing of its parent's.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import subprocess
import sys

import pytest

from simulation.child import Child

FORKED = """
import json, sys
from pathlib import Path
from simulation.child import Child
from simulation.test_child import crashes
outcome = Child.fork(Path(sys.argv[1]), None, crashes).wait()
print(json.dumps([outcome.kind, outcome.told]))
"""
hooks = []
os.register_at_fork(after_in_child=lambda: [hook() for hook in hooks])  # type: ignore[has-type]


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
    # Forked from a process without threads: locks that another test's threads hold are no matter of this test.
    done = subprocess.run(
        [sys.executable, "-c", FORKED, tmp_path / "armed-1"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    kind, told = json.loads(done.stdout)

    assert (kind, told["by"]) == ("killed", "SIGSEGV")
    assert "in crashes" in told["stack"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("collecting")
def test_a_child_leaves_its_parents_garbage_alone_from_the_fork_on(tmp_path):
    gc.collect()
    Client()

    outcome = Child.fork(tmp_path / "armed-1", None, collects).wait()

    assert outcome.kind == "ok", outcome
    assert outcome.told["enabled"]
    assert gc.isenabled()
