"""Tests Ctrl-C during real runs: an answer at once, an end soon, and a batch that the next run finishes."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from contextlib import closing, contextmanager

import psutil
import psycopg2
import pytest

from lockstep.steps.attempt.advance import Counter
from support.scenes.command_line import without_styles
from support.scenes.drill import TESTS

CALL = [sys.executable, "-c", "from lockstep.cli.app import main; main()"]
ANSWER_SECONDS = 1.0
END_SECONDS = 8.0
READS = "batch 1 is unfinished, and goes on with: lockstep run drill"
ROWS = "select id, n from public.drill order by n"
EXPECTED = [(f"r{i}", i) for i in range(150)]


class Typed:
    """A command that a person has typed at a terminal, or that a script calls with pipes."""

    def __init__(
        self, drill, *arguments: str, fault: str | None = None, terminal: bool = False, spark: bool = True
    ) -> None:
        environ = os.environ | {
            "LOCKSTEP_DSN": drill.dsn,
            "LOCKSTEP_KAFKA": drill.kafka,
            "LOCKSTEP_PIPELINES": str(drill.home),
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "include"), str(TESTS)]),
            "SPARK_MASTER": "local[3]",
            "TERM": "xterm",
            "COLUMNS": "120",
        }
        if spark:
            environ["LOCKSTEP_ENGINE"] = "spark"
        self.armed = drill.home / "armed"
        if fault:
            self.armed.touch()
            environ["LOCKSTEP_FAULT"] = f"{fault}@{self.armed}"
        self.ours, theirs = os.openpty() if terminal else os.pipe()

        def begin() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
            if terminal:
                fcntl.ioctl(2, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [*CALL, *arguments],
            env=environ,
            stdin=theirs if terminal else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=begin,  # noqa: PLW1509 - one thread
            cwd=drill.home,
        )
        drill.started.append(self.process.pid)
        os.close(theirs)
        self.said = ""

    def until(self, words: str, seconds: float) -> float:
        """Reads standard error until it has these words. Returns the seconds that it took."""
        began = time.monotonic()
        while words not in without_styles(self.said):
            left = began + seconds - time.monotonic()
            assert left > 0, f"{words!r} is not in {self.said!r}"
            if select.select([self.ours], [], [], left)[0]:
                self.said += os.read(self.ours, 65536).decode(errors="replace")
        return time.monotonic() - began

    def until_struck(self) -> None:
        """Waits until a task has stopped at the fault point."""
        began = time.monotonic()
        while self.armed.exists():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < began + 120, "the fault point was never reached"
            time.sleep(0.05)

    def end(self, seconds: float = END_SECONDS) -> int:
        return self.process.wait(timeout=seconds)


def assert_goes_on(drill) -> None:
    """The next run finishes the batch at once, and every record is there once, with its values."""
    began = time.monotonic()
    assert Typed(drill, "run", "drill", "--until-idle", spark=False).end(60) == 0
    assert time.monotonic() - began < 30
    assert drill.ask(ROWS) == EXPECTED
    assert drill.violations() == []


@pytest.mark.parametrize(
    "to_the_group", [True, pytest.param(False, marks=pytest.mark.long)], ids=["as a terminal", "as a script"]
)
def test_a_read_is_interrupted_at_once_although_a_task_of_it_never_ends(drill, to_the_group):
    typed = Typed(drill, "run", "drill", fault="task.read_mid=stop")
    typed.until_struck()
    began = time.monotonic()

    (os.killpg if to_the_group else os.kill)(typed.process.pid, signal.SIGINT)

    assert typed.until(READS, END_SECONDS) < ANSWER_SECONDS
    assert typed.end() == 130
    assert typed.said.splitlines() == [f"stopping; {READS}"]
    print(f"ended after {time.monotonic() - began:.1f} s")
    assert drill.ask("select count(*) from lockstep.attempt where error is not null") == [(0,)]
    assert_goes_on(drill)


@pytest.mark.long
def test_ctrl_c_at_a_terminal_wipes_the_count_and_says_what_is_left(drill):
    typed = Typed(drill, "run", "drill", fault="task.copy_mid=stop", terminal=True)
    typed.until(" of 150 records", 120)
    count = re.findall(r"batch 1: reading.* (\d+) of 150 records", without_styles(typed.said))
    assert 0 < int(count[-1]) <= 150

    os.write(typed.ours, b"\x03")

    assert typed.until(READS, END_SECONDS) < ANSWER_SECONDS
    assert typed.end() == 130
    assert_goes_on(drill)


def test_the_count_is_of_the_records_that_tasks_have_read_so_far(drill):
    typed = Typed(drill, "run", "drill", fault="task.copy_mid=stop")
    typed.until_struck()
    one_left = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and application_name like 'lockstep stage 1.%%'"
    )
    wait_until(lambda: drill.ask(one_left) == [(1,)], "the other tasks end")
    with closing(Counter(drill.dsn, counts_records=True)) as counter:
        found = counter.look(1)
        assert (found.read, found.of) == (150, 150), "one task reads so few offsets"
    (left,) = drill.ask("select count(*), (select count(*) from public.drill) from lockstep.manifest")
    assert left == (0, 0), "its rows are invisible to everybody else"
    os.killpg(typed.process.pid, signal.SIGKILL)
    typed.end()


@contextmanager
def held(drill, statement: str):
    """Holds locks in a transaction of its own, for which the command has to wait."""
    with closing(psycopg2.connect(drill.dsn)) as conn, conn.cursor() as cur:
        cur.execute(statement)
        yield
        conn.rollback()


def until_waiting(drill) -> None:
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    wait_until(lambda: drill.ask(waiting) != [(0,)], "it waits for a lock")


def wait_until(what, why: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, f"it did not come: {why}"
        time.sleep(0.05)


def test_a_plan_that_waits_for_a_lock_is_answered_at_once(drill):
    assert Typed(drill, "plan", "drill").end(60) == 0
    with held(drill, "select * from lockstep.pipeline for update"):
        typed = Typed(drill, "run", "drill", spark=False)
        until_waiting(drill)
        os.kill(typed.process.pid, signal.SIGINT)
        assert typed.until("stopping; go on with: lockstep run drill", END_SECONDS) < ANSWER_SECONDS
        assert typed.end() == 130
    assert_goes_on(drill)


def test_a_commit_that_waits_is_ended_and_counts_as_a_whole_or_not_at_all(drill):
    with held(drill, "lock table public.drill in access exclusive mode"):
        typed = Typed(drill, "run", "drill", spark=False)
        until_waiting(drill)
        os.kill(typed.process.pid, signal.SIGINT)
        words = "batch 1 may be committed as a whole already; go on with: lockstep run drill"
        assert typed.until(words, END_SECONDS) < ANSWER_SECONDS
        assert typed.end() == 130
        assert drill.ask("select state from lockstep.batch") == [("planned",)]
    assert_goes_on(drill)


@pytest.mark.long
def test_no_process_of_an_interrupted_run_is_left(drill):
    typed = Typed(drill, "run", "drill", fault="task.read_mid=stop")
    typed.until_struck()
    ours = [each for each in psutil.Process(typed.process.pid).children(recursive=True) if each.name() == "java"]
    assert ours
    os.kill(typed.process.pid, signal.SIGINT)
    assert typed.end() == 130
    gone, left = psutil.wait_procs(ours, timeout=20)
    assert gone
    assert left == []
