"""Tests that a plain JSON append enters the functions that the page about it lists, and that it names all others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from support.oracles.way_page import ENGINE, beside, functions, way

FOLLOWED = Path(__file__).parents[1] / "support" / "followed"
RUN = "import sys; from lockstep.cli.app import main; sys.argv = ['lockstep', 'run', 'drill']; main()"
A_TASK = ("engine/part_reader.py", "PartReader.write")
Entered = dict[str, set[str]]  # functions of ours, per file


class Followed(NamedTuple):
    """The functions that the driver has entered, those of Spark's workers, and those of all processes."""

    driver: Entered
    tasks: Entered
    all: Entered


@pytest.fixture
def followed(drill, tmp_path):
    """Returns `followed(engine)`: what `lockstep run drill` enters in its own process and in those that it starts."""

    def run(engine: str) -> Followed:
        environ = {"LOCKSTEP_DSN": drill.dsn, "LOCKSTEP_KAFKA": drill.kafka, "LOCKSTEP_PIPELINES": str(drill.home)}
        environ |= {"LOCKSTEP_ENGINE": engine, "SPARK_MASTER": "local[1]", "FOLLOW_INTO": str(tmp_path)}
        environ |= {"FOLLOW_BELOW": str(ENGINE), "PYTHONPATH": os.pathsep.join([str(FOLLOWED), str(ENGINE.parent)])}
        command = subprocess.Popen(
            [sys.executable, "-c", RUN], env=os.environ | environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        said, _ = command.communicate(timeout=240)
        assert command.returncode == 0, said.decode()
        assert drill.ask("select count(*) from public.drill") == [(150,)]
        assert drill.ask("select route ->> 'way' from lockstep.attempt") == [(engine,)]
        each = {file.name: entered(file) for file in tmp_path.iterdir() if file.name.isdecimal()}
        tasks = [found for found in each.values() if A_TASK[1] in found.get(A_TASK[0], ())]
        return Followed(each[str(command.pid)], together(tasks), together(each.values()))

    return run


def entered(file: Path) -> Entered:
    """Returns what one process has entered of the functions and methods in our files."""
    found: Entered = {}
    for line in file.read_text().splitlines():
        name, function = line.split("\t")
        if function in functions(name):
            found.setdefault(name, set()).add(function)
    return found


def together(each) -> Entered:
    found: Entered = {}
    for one in each:
        for file, names in one.items():
            found.setdefault(file, set()).update(names)
    return found


def test_the_way_is_what_a_run_and_its_tasks_enter_and_nothing_else_is_unnamed(followed):
    driver, tasks, whole = followed("spark")
    named = {file: set(names) for file, names in way().items()}
    in_tasks = way("task").keys()

    assert {file: whole[file] ^ named[file] for file in named if whole[file] != named[file]} == {}
    assert {file: driver[file] for file in named.keys() - in_tasks} == {
        file: named[file] for file in named.keys() - in_tasks
    }
    assert {file: tasks.get(file) for file in in_tasks} == {file: named[file] - OF_THE_DRIVER for file in in_tasks}
    assert {name for file in in_tasks for name in driver.get(file, ())} == OF_THE_DRIVER

    others, names = whole.keys() - named.keys(), beside()
    of = {
        file: [name for name in names if file == name or (name.endswith("/") and file.startswith(name))]
        for file in others
    }
    assert {file: found for file, found in of.items() if len(found) != 1} == {}
    assert set(names) - {found[0] for found in of.values()} == set()


OF_THE_DRIVER = {"Writer.reports"}  # which reads what the tasks have answered
OF_PARTS = {"Writer.of_part"}  # the process reads all ranges itself


def test_the_process_enters_the_same_reader_and_writer_itself(followed):
    driver, tasks, _ = followed("process")
    in_tasks = way("task")

    assert tasks == {}
    assert {file: driver[file] for file in in_tasks} == {
        file: set(names) - OF_PARTS for file, names in in_tasks.items()
    }
    assert {"ProcessReader.read", "ChosenEngine.read"} <= driver["engine/chosen.py"]
    assert not [file for file in driver if file.startswith("engine/spark/")]
