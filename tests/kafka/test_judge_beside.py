"""Tests who imports Great Expectations: nobody without a suite, and with one a process beside the read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.core.errors import BadData
from lockstep.steps.attempt.judge import judge_beside
from support.scenes.here import Here

LIBRARY = "great_expectations"
OURS = "lockstep.steps.batch.expectations"


class Refuser:
    """A finder that refuses the library and the only module that may import it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find_spec(self, name, _path=None, _target=None):
        if name in {LIBRARY, OURS}:
            self.asked.append(name)
            raise AssertionError(f"{name} is imported")


@pytest.fixture
def here(drill):
    judge_beside().end()  # another test of this process may have begun one
    here = Here(drill)
    yield here
    here.at.close()
    judge_beside().end()


@pytest.fixture
def refuser(monkeypatch):
    """Makes an import of the library in this process an error, as if it had none of it yet."""
    refuser = Refuser()
    monkeypatch.delitem(sys.modules, OURS, raising=False)
    monkeypatch.setattr(sys, "meta_path", [refuser, *sys.meta_path])
    return refuser


def suite(here, **kwargs: int) -> None:
    expected = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", **kwargs}}
    document = {"name": "drill", "expectations": [expected]}
    (here.drill.home / "drill" / "expectations.json").write_text(json.dumps(document))


def test_a_run_without_a_suite_imports_nothing_of_it_and_starts_no_judge(here, refuser):
    assert here.run().ranges
    assert refuser.asked == []
    assert judge_beside().pid is None
    assert here.drill.ask("select count(*) from public.drill") == [(150,)]


@pytest.mark.long
def test_a_suite_is_judged_by_a_process_beside_the_read_that_serves_later_batches(here, refuser, produce):
    suite(here, max_value=149)
    assert here.run().ranges
    judge = judge_beside().pid
    produce(here.drill.topic, [("k", '{"id": "late", "n": 3}')])
    assert here.run().ranges

    assert judge_beside().pid == judge
    assert refuser.asked == []
    verdicts = here.drill.ask("select success, result -> 'results' -> 0 ->> 'success' from lockstep.verdict")
    assert verdicts == [(True, "true")] * 2
    arguments = Path(f"/proc/{judge}/cmdline").read_text()
    assert OURS in arguments
    assert here.drill.dsn not in arguments

    judge_beside().end()
    assert not Path(f"/proc/{judge}").exists()


@pytest.mark.long
@pytest.mark.parametrize("how", ["refused", "killed before", "killed while it judges"])
def test_a_judge_that_gives_no_answer_changes_no_verdict(here, monkeypatch, how):
    suite(here, max_value=148 if how == "refused" else 149)
    begin = type(judge_beside()).begin

    def begin_and_kill(judge) -> None:
        begin(judge)
        if how == "killed before":
            os.kill(judge.pid, signal.SIGKILL)
        elif how == "killed while it judges":
            os.kill(judge.pid, signal.SIGSTOP)
            subprocess.Popen(["sh", "-c", f"sleep 3; kill -9 {judge.pid}"])

    monkeypatch.setattr(type(judge_beside()), "begin", begin_and_kill)
    if how == "refused":
        with pytest.raises(BadData, match="expect_column_values_to_be_between on n failed for 1 rows"):
            here.run()
        assert here.drill.ask("select count(*) from public.drill") == [(0,)]
    else:
        assert here.run().ranges
        assert here.drill.ask("select count(*) from public.drill") == [(150,)]
    assert len(here.drill.ask("select 1 from lockstep.verdict")) == 1
