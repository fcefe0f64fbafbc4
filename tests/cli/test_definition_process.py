"""Tests the process that evaluates definitions: one for all loads, and whatever ends it or hangs in it costs one load."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from lockstep.adapters import folders
from lockstep.adapters.definition import process
from lockstep.core.errors import BadDefinition, Refusal
from support.scenes.authors_code import has_landlock
from support.scenes.command_line import DEFINITION
from support.servers.scheduled import wait_for

# A definition that writes down its own process and the one that evaluates all.
NOTED = """
import os, time
with open({log!r}, "a") as file:
    file.write(f"{{os.getpid()}} {{os.getppid()}}\\n")
{more}
"""
# It forks first, as Airflow does: a fork that lives on must not hold the evaluating process.
LOADS_AND_FORKS = """
import os, time
from lockstep.adapters.folders import load
load("orders")
pid = os.fork()
if pid == 0:
    time.sleep(600)
print(pid, flush=True)
load("bills")
"""


class Interrupted(Exception):  # noqa: N818 - it stands for Ctrl-C
    """What a signal raises in the middle of a load."""


@pytest.fixture
def noted(lockstep):
    """Returns a function that writes a definition, and one that lists the processes of each evaluation."""
    log, count = lockstep.home / "log", iter(range(1_000))

    def write(name: str = "orders", more: str = "") -> None:
        definition = DEFINITION.replace('"orders"', f'"{name}"')
        lockstep.define(name, init=NOTED.format(log=str(log), more=more) + definition + f"# {next(count)}\n")

    def evaluated() -> list[tuple[int, int]]:
        pairs = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return [(int(own), int(above)) for own, above in pairs]

    return write, evaluated


def is_there(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_one_process_evaluates_all_definitions_and_a_fork_for_each(noted):
    write, evaluated = noted
    for name in ("orders", "orders", "bills"):
        write(name)
        assert folders.load(name).pipeline.name == name

    assert len({own for own, _ in evaluated()}) == 3
    assert len({above for _, above in evaluated()}) == 1


def test_a_process_that_was_ended_between_two_loads_is_started_again(noted):
    write, evaluated = noted
    write()
    folders.load("orders")
    os.kill(evaluated()[-1][1], signal.SIGKILL)
    wait_for(lambda: not is_there(evaluated()[-1][1]), "it ends", 20)
    write()

    assert folders.load("orders").pipeline.name == "orders"
    assert len({above for _, above in evaluated()}) == 2


def test_a_fork_has_a_process_of_its_own_and_leaves_its_parents_alone(noted):
    write, evaluated = noted
    for name in ("orders", "bills", "sales"):
        write(name)
    folders.load("orders")
    pid = os.fork()
    if pid == 0:  # it must not come back into the tests, whatever happens
        code = 1
        with suppress(BaseException):
            code = int(folders.load("bills").pipeline.name != "bills")
        os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert folders.load("sales").pipeline.name == "sales"

    of_parent, of_fork, again = (above for _, above in evaluated())
    assert of_parent == again != of_fork
    wait_for(lambda: not is_there(of_fork), "the fork's process ends with it", 20)


def test_an_interrupted_load_leaves_no_answer_for_the_next(noted):
    write, _ = noted

    def ring(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, ring)
    try:
        write("orders", "time.sleep(60)")
        write("bills")
        folders.load("bills")  # so that the process runs
        signal.setitimer(signal.ITIMER_REAL, 1)
        with pytest.raises(Interrupted):
            folders.load("orders")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    write("bills")
    write("orders")
    assert [folders.load(name).pipeline.name for name in ("bills", "orders")] == ["bills", "orders"]


def test_threads_take_turns(noted):
    write, evaluated = noted
    names = [f"p{n}" for n in range(4)]
    for name in names:
        write(name)
    found: dict[str, str] = {}
    threads = [threading.Thread(target=lambda n=n: found.update({n: folders.load(n).pipeline.name})) for n in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {name: name for name in names}
    assert len({above for _, above in evaluated()}) == 1


def test_a_definition_that_hangs_is_ended_and_the_next_one_is_evaluated_by_the_same_process(noted, monkeypatch):
    write, evaluated = noted
    write("bills")
    folders.load("bills")
    write("orders", "time.sleep(600)")
    monkeypatch.setattr(process, "SECONDS_EACH", 1.0)
    with pytest.raises(BadDefinition, match=r"orders/__init__\.py: it was not evaluated within 1 s"):
        folders.load("orders")
    (_, first), (hung, above) = evaluated()
    assert above == first
    assert not is_there(hung)
    monkeypatch.undo()


def test_a_definition_over_which_the_process_ends_twice_is_broken_and_hides_no_other(noted):
    write, evaluated = noted
    write("bills")
    write("orders", "time.sleep(600)")
    ended: set[int] = set()

    def end_each() -> None:
        while len(ended) < 2 and not over.wait(0.02):
            for _, above in evaluated()[1:]:
                if above not in ended:
                    ended.add(above)
                    os.kill(above, signal.SIGKILL)

    folders.load("bills")
    over, watch = threading.Event(), threading.Thread(target=end_each)
    watch.start()
    found = folders.load_each(["orders"])
    over.set()
    watch.join()
    write("sales")
    found |= folders.load_each(["sales"])

    assert isinstance(found["orders"], Refusal)
    assert "the process that evaluates definitions ended twice over it: signal 9" in found["orders"].message
    assert found["sales"].pipeline.name == "sales"
    assert len(ended) == 2


@pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")
def test_a_definition_cannot_end_the_process_that_evaluates_all(noted):
    write, _ = noted
    write("orders", "os.kill(os.getppid(), 9)")
    with pytest.raises(BadDefinition, match=r"PermissionError: \[Errno 1\] Operation not permitted"):
        folders.load("orders")


def test_the_process_ends_with_the_one_that_asks_also_in_the_middle_of_a_definition(noted, lockstep):
    write, evaluated = noted
    write("orders")
    write("bills", "time.sleep(600)")
    asks = subprocess.Popen([sys.executable, "-c", LOADS_AND_FORKS], cwd=lockstep.home, stdout=subprocess.PIPE)
    fork = int(asks.stdout.readline())
    try:
        wait_for(lambda: len(evaluated()) == 2, "it hangs", 120)
        asks.kill()

        (_, (hung, above)) = evaluated()
        wait_for(lambda: not is_there(above) and not is_there(hung), "both end", 60)
        assert is_there(fork)
    finally:
        asks.kill()
        os.kill(fork, signal.SIGKILL)
        asks.wait()
        asks.stdout.close()


def test_a_python_that_cannot_start_is_named(noted, monkeypatch):
    write, _ = noted
    write()
    monkeypatch.setattr("lockstep.adapters.definition.connection.EVALUATOR", "1 / 0")
    monkeypatch.setattr("lockstep.adapters.definition.connection._holder.server", None)
    with pytest.raises(Refusal, match=r"definitions cannot be evaluated: .*: ZeroDivisionError: division by zero"):
        folders.load("orders")
