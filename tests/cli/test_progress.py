"""Tests what a terminal shows while a batch is read, and what a pipe does not."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console

from lockstep.cli.interrupt import STOP_SECONDS
from lockstep.cli.progress import records_line, shown_progress
from lockstep.core.planning.activity import READING, VALIDATING, Activity, Advance

WAITS = """
import sys, time
from lockstep.cli.progress import shown_progress
from lockstep.core.planning.activity import READING, Activity
with shown_progress(again="lockstep run orders") as say:
    say(Activity(11, READING))
    {waits}
"""
STUCK = """import contextlib
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            print("reading", flush=True)
            time.sleep(60)"""


class Counts:
    """A counter whose reads advance by 4,000 records a look."""

    def __init__(self, of: int | None) -> None:
        self.of, self.read, self.closed = of, 0, False

    def look(self, batch_id: int) -> Advance:
        assert batch_id == 11
        self.read += 4_000
        return Advance(self.read, self.of)

    def close(self) -> None:
        self.closed = True


def shown(counts: Counts, *, terminal: bool, monkeypatch) -> str:
    monkeypatch.setattr("lockstep.cli.progress.COUNT_SECONDS", 0.05)
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120, _environ={"TERM": "xterm"})
    with shown_progress(console=console, counter=counts) as say:  # type: ignore[arg-type]
        say(Activity(11, READING))
        time.sleep(0.6)
        late = time.monotonic() + 20  # on a machine that is busy, looks come late
        while terminal and not ("8,000" in text.getvalue() and "/s" in text.getvalue()) and time.monotonic() < late:
            time.sleep(0.05)
        say(Activity(11, VALIDATING))
        time.sleep(0.2)
    return text.getvalue()


def test_a_terminal_shows_records_of_how_many_with_their_rate_and_the_time_left(monkeypatch):
    counts = Counts(100_000)
    text = shown(counts, terminal=True, monkeypatch=monkeypatch)
    assert "batch 11: reading" in text
    assert "8,000 of 100,000 records" in text
    assert re.search(r"/s, \d:\d\d left", text)
    assert "batch 11: validating" in text
    assert "records" not in text[text.index("batch 11: validating") :]
    assert counts.closed


def test_rows_of_a_transform_are_counted_without_an_end(monkeypatch):
    text = shown(Counts(None), terminal=True, monkeypatch=monkeypatch)
    assert "8,000 rows" in text
    assert "left" not in text


def test_a_pipe_shows_nothing_and_asks_nothing(monkeypatch):
    counts = Counts(100_000)
    assert shown(counts, terminal=False, monkeypatch=monkeypatch) == ""
    assert counts.read == 0


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ((0, 60_000, None, None), ""),
        ((12_000, 60_000, None, None), "12,000 of 60,000 records"),
        ((12_000, 60_000, 3_412.4, 134.2), "12,000 of 60,000 records, 3,412/s, 2:14 left"),
        ((12_000, None, 3_412.4, None), "12,000 rows, 3,412/s"),
    ],
)
def test_the_count_says_what_is_known(facts, line):
    assert records_line(*facts) == line


def started(waits: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS.format(waits=waits)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - ignored in some shells
    )
    assert process.stdout.readline() == "reading\n"
    return process


def answer_to(process: subprocess.Popen[str]) -> tuple[str, float]:
    """Interrupts, and returns the first line of standard error with the seconds that it took."""
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    return process.stderr.readline(), time.monotonic() - began


AT_ONCE = STOP_SECONDS - 1  # and not when the time to unwind is over
ANSWER = "stopping; batch 11 is unfinished, and goes on with: lockstep run orders\n"


def test_an_interrupt_is_answered_at_once():
    process = started('print("reading"); time.sleep(60)')
    line, seconds = answer_to(process)
    assert line == ANSWER
    assert seconds < AT_ONCE
    assert process.wait(timeout=10) != 0


def test_an_interrupt_is_answered_by_a_program_that_python_cannot_stop():
    # A mutex that is locked twice waits for ever, and Python gets no turn to raise anything.
    process = started(
        "import ctypes; libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64); print('reading');"
        "libc.pthread_mutex_lock(mutex); libc.pthread_mutex_lock(mutex)"
    )
    time.sleep(1)  # by now it waits
    line, seconds = answer_to(process)
    assert line == ANSWER
    assert seconds < AT_ONCE
    assert process.wait(timeout=20) == 130


def test_a_program_that_swallows_its_interrupt_is_ended_in_time():
    process = started(STUCK)
    began = time.monotonic()
    assert answer_to(process)[0] == ANSWER
    assert process.wait(timeout=20) == 130
    assert 4 < time.monotonic() - began < 15


def test_a_second_interrupt_ends_it_at_once():
    process = started(STUCK)
    assert answer_to(process)[0] == ANSWER
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert time.monotonic() - began < AT_ONCE


SWALLOWED = """import contextlib
    with contextlib.suppress(KeyboardInterrupt):
        print("reading", flush=True)
        time.sleep(60)
    print("on")
    say(Activity(12, READING))
    print("never")"""


def test_an_interrupt_that_was_lost_on_the_way_still_ends_the_run():
    process = started(SWALLOWED)
    answer_to(process)
    out, _ = process.communicate(timeout=10)
    assert out == "on\n"
    assert process.returncode != 0
