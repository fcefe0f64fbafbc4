"""Tests that the command line starts fast, and ends every error in a line and an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.cli.exits import Exit
from lockstep.cli.looks import status
from support.scenes.command_line import assert_refused

HEAVY = (
    "pyspark",
    "great_expectations",
    "confluent_kafka",
    "pyarrow",
    "pandas",
    "psycopg2",
    "rich.table",
    "jinja2",
    "airflow",
)
ENGINE = {"PYTHONPATH": str(Path(status.__file__).parents[3])}
CALL = "from lockstep.cli.app import main; main()"


def python(code: str, *arguments: str) -> str:
    call = [sys.executable, "-c", code, *arguments]
    return subprocess.run(call, capture_output=True, text=True, check=True, env=os.environ | ENGINE).stdout


def test_help_answers_at_once_and_imports_nothing_heavy():
    look = f"import sys, lockstep.cli.app; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(look) == "[]\n"
    said = python(
        f"import time; {CALL.replace('main()', '')}\ntry: main()\nfinally: print(time.process_time())", "--help"
    )
    assert float(said.splitlines()[-1]) < 1.0  # 0.2 s of a core that has nothing else to do
    assert "accept-loss" in said


def test_importing_the_core_takes_milliseconds():
    core = "import lockstep.core.planning.live, lockstep.core.pipeline.definition"
    look = f"import time; begin = time.process_time(); {core}; print(time.process_time() - begin)"
    assert float(python(look)) < 0.2


def test_an_unexpected_error_is_one_line_and_its_traceback_is_kept(lockstep, monkeypatch):
    def fail(_):
        raise ZeroDivisionError("in the\nmiddle")

    monkeypatch.setattr(status.folders, "load", fail)
    said = lockstep("batches", "orders")
    assert_refused(said, "unexpected ZeroDivisionError: in the middle", "read the traceback in", code=Exit.UNEXPECTED)
    (kept,) = (lockstep.home / ".lockstep" / "errors").iterdir()
    assert str(kept) in said.err
    assert "Traceback" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0


def test_without_a_stack_the_traceback_is_kept_elsewhere(lockstep, monkeypatch):
    monkeypatch.setattr(status.folders, "load", lambda _: 1 / 0)
    (lockstep.home / ".lockstep").rmdir()
    said = lockstep("batches", "orders")
    assert_refused(said, "unexpected ZeroDivisionError", "read the traceback in /", code=Exit.UNEXPECTED)


def test_an_interrupt_is_quiet(lockstep, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(status.folders, "load", interrupted)
    said = lockstep("batches", "orders")
    assert (said.code, said.out, said.err) == (130, "", "")


def test_a_reader_that_leaves_early_causes_no_noise():
    writer = subprocess.Popen(
        [sys.executable, "-c", CALL, "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | ENGINE,
    )
    writer.stdout.close()
    assert writer.stderr.read() == ""
    writer.wait(10)


@pytest.mark.parametrize("arguments", [("--version",), ("-h",), ("status", "--help")], ids=" ".join)
def test_questions_about_the_program_itself_are_answered(lockstep, arguments):
    said = lockstep(*arguments)
    assert (said.code, said.err) == (0, "")
    assert "lockstep" in said.out


def test_no_command_at_all_shows_the_commands(lockstep):
    said = lockstep()
    assert said.code == 2
    assert "Commands:" in said.out + said.err
