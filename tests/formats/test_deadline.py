"""Tests that work without progress ends its process and leaves a note, and that no other work and no waiting does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pyarrow as pa
import pytest

from lockstep.core.engine import LeftToSpark
from lockstep.engine.patience import patient

BEGINNING = """
import decimal, inspect, os, pickle, re, time
from lockstep.deadline import Deadline, watched
"""
SHOULD_END = {
    "Python": "while True: pass",
    "C that keeps Python's lock": "int(decimal.Decimal('1e9999999'))",
    "a pattern that backtracks": "re.match('(a|aa)+$', 'a' * 100 + 'b')",
    "a wait": "time.sleep(1000)",
}
SHOULD_LIVE = {
    "many pieces, each within the deadline": """
        with Deadline(1) as deadline:
            for _ in deadline.each(range(30)):
                time.sleep(0.1)
    """,
    "time after a piece": """
        with Deadline(1):
            pass
        time.sleep(3)
    """,
    "an error in a piece": """
        try:
            with Deadline(1) as deadline:
                [1 / 0 for _ in deadline.each([1])]
        except ZeroDivisionError as error:
            kept = error
        time.sleep(3)
    """,
    "a function that waits for its input, and whose output is waited for": """
        def slow(things):
            for thing in things:
                time.sleep(1.5)
                yield thing
        def doubled(things):
            for thing in things:
                time.sleep(0.5)
                yield 2 * thing
        made = []
        for thing in watched(doubled, 1)(slow([1, 2])):
            time.sleep(1.5)
            made.append(thing)
        assert made == [2, 4]
    """,
    "a function between two calls": """
        work = watched(lambda n: n + 1, 1)
        assert work(1) == 2
        time.sleep(3)
        assert work(2) == 3
    """,
    "what is asked of a function": """
        def given(key, frame: int = 3) -> int:
            "Says."
        made = watched(given, 1)
        assert inspect.getfullargspec(made) == inspect.getfullargspec(given)
        assert (made.__name__, made.__doc__) == ("given", "Says.")
    """,
}


def python(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    program = BEGINNING + textwrap.dedent(code)
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environ
    try:
        return subprocess.run(
            [sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess([], 124, "", "it did not end")


@pytest.mark.parametrize("name", SHOULD_END)
def test_work_that_makes_no_progress_ends_its_process_and_says_where(tmp_path, name):
    done = python(
        f"""
        def decode():
            {SHOULD_END[name]}
        print(os.getpid(), flush=True)
        with Deadline(1):
            decode()
        """,
        PYTHON_FAULTHANDLER_DIR=str(tmp_path),
    )
    assert done.returncode == -signal.SIGALRM, done.stderr
    note = (tmp_path / done.stdout.strip()).read_text()
    assert "most recent call first" in note
    assert "in decode" in note
    assert "Fatal" not in note


def test_a_function_that_makes_no_progress_ends_its_process():
    endless = """
        def worked(things):
            for thing in things:
                while thing == 2:
                    pass
                yield thing
        print(*watched(worked, 1)(iter([1])), flush=True)
        print(*watched(worked, 1)(iter([1, 2])))
    """
    done = python(endless)
    assert (done.returncode, done.stdout) == (-signal.SIGALRM, "1\n"), done.stderr
    assert "in worked" in done.stderr


@pytest.mark.parametrize("name", SHOULD_LIVE)
def test_progress_and_waiting_end_no_process(name):
    done = python(SHOULD_LIVE[name])
    assert done.returncode == 0, done.stderr


VALUES = pa.array([b"1", b"2"])


def test_a_piece_that_takes_too_long_in_this_process_is_left_to_spark():
    ends = threading.Event()

    def endless(_values):
        ends.wait(10)

    with pytest.raises(LeftToSpark):
        patient(endless, 0.2)(VALUES)
    ends.set()


def test_a_piece_that_is_decoded_in_time_is_as_without_a_deadline():
    made = (np.array([0, 1]), pa.RecordBatch.from_pydict({"n": [1, 2]}))
    assert patient(lambda values: made if values is VALUES else None, 60)(VALUES) is made

    def fails(_values):
        raise TimeoutError("the registry")

    with pytest.raises(TimeoutError, match="the registry"):
        patient(fails, 60)(VALUES)
