"""Tests exit codes: each kind of end has its own, and `--json` tells the same."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from lockstep.adapters.kafka import client as kafka
from lockstep.cli import app
from lockstep.cli.exits import Exit, exit_of
from lockstep.core.errors import BadData, BadDefinition, LockTimeout, NeedsDecision, ReaderDied, Refusal, Unreachable

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refusal("no"), Exit.REFUSED),
        (BadDefinition("no"), Exit.REFUSED),
        (Unreachable("away"), Exit.AWAY),
        (LockTimeout("busy"), Exit.AWAY),
        (BadData("bad"), Exit.DATA),
        (ReaderDied("died"), Exit.DATA),
        (NeedsDecision("blocked"), Exit.BLOCKED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.name,
)
def test_each_kind_of_refusal_has_its_code(error, code):
    assert exit_of(error) is code


def test_the_page_tells_each_code_once():
    told = re.findall(r"^\| (\d+) \| (\w+)", PAGE.read_text(), re.MULTILINE)
    assert told == [(str(int(each)), each.name.lower()) for each in Exit]


def test_a_broker_that_is_away_ends_with_its_own_code_and_names_the_cause(lockstep, here, monkeypatch):
    assert here
    monkeypatch.setattr(kafka, "ANSWER_SECONDS", 0.5)
    for address, cause in (("127.0.0.1:1", "Connection refused"), ("nowhere.invalid:9092", "Failed to resolve")):
        lockstep.environ(LOCKSTEP_KAFKA=address)
        said = lockstep("run", "drill", "--json")
        assert said.code == Exit.AWAY
        assert cause in said.document["error"]
        assert said.document["next"] == "look at LOCKSTEP_KAFKA; for the embedded broker: lockstep dev status"


def test_data_that_no_code_can_read_and_a_pipeline_that_waits_for_a_person_are_told_apart(lockstep, here):
    def spoil(_: Any) -> dict:
        raise ValueError("no such value")

    here.code = spoil
    codes = [lockstep("run", "drill").code for _ in range(4)]
    assert codes == [Exit.DATA, Exit.DATA, Exit.DATA, Exit.BLOCKED]
    blocked = lockstep("run", "drill", "--json")
    assert (blocked.code, blocked.document["decision"]) == (Exit.BLOCKED, "blocked")
    assert "--retry" in blocked.document["next"]


@pytest.mark.parametrize(
    ("call", "error", "following"),
    [
        (["run"], "Missing argument 'NAME'.", "lockstep run --help"),
        (["run", "drill", "--wat"], "No such option: --wat (Possible options: --wait)", "lockstep run --help"),
        (["statsu"], "No such command 'statsu'. Did you mean 'status'?", "lockstep --help"),
        (["batch", "drill", "x"], None, "lockstep batch --help"),
    ],
)
def test_a_wrong_call_is_one_line_and_one_document(lockstep, call, error, following):
    said = lockstep(*call, "--json")
    assert said.code == Exit.USAGE
    assert said.err.count("\n") == 1
    assert said.document["next"] == following
    assert said.document["error"] == (error or said.document["error"])


def test_a_full_disk_is_worth_a_retry_and_is_no_fault_of_lockstep(lockstep, monkeypatch):
    def full(*_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/srv/spool")

    monkeypatch.setattr(app, "_call", full)
    monkeypatch.setattr(app.tempfile, "mkstemp", full)
    said = lockstep("run", "drill", "--json")
    assert said.code == Exit.AWAY
    assert said.err == "this machine has no room for /srv/spool: No space left on device  Next: make room on its disk\n"
    assert said.document["next"] == "make room on its disk"


def test_a_shell_can_be_taught_to_complete_commands(lockstep, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    monkeypatch.setattr(app, "command_tree", lambda: get_command(app.app))  # built before, it does not know of it
    said = lockstep("--show-completion", "bash")
    assert (said.code, said.err) == (0, "")
    assert "complete -o" in said.out


def test_a_command_whose_help_says_that_it_takes_all_pipelines_does_so_without_a_name(lockstep, here):
    assert here
    said = {
        name: " ".join(str(getattr(each, "help", "")) for each in command.params)
        for name, command in get_command(app.app).commands.items()  # type: ignore[attr-defined]
    }
    taking_all = sorted(name for name, text in said.items() if "all of them without it" in text)

    assert taking_all == ["check", "doctor", "status"]
    for name in taking_all:
        assert lockstep(name, "--json").code in {Exit.DONE, Exit.REFUSED}, name
    assert lockstep("verify").code == Exit.USAGE
    assert list(lockstep("migrate", "--json").document) == ["applied"], "the ledger alone"
