"""Tests that executors which have the packages of requirements-executors.txt alone can import what their tasks run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark

from lockstep.installed import CHECKOUT
from support.pythons import executors_python

INCLUDE = CHECKOUT / "include"
# What reads, decodes and writes. Tasks that commit ranges get those of `steps` by value.
OF_TASKS = ("engine/**/*.py", "formats/**/*.py", "steps/ranges/task.py", "steps/ranges/*_range.py")
IMPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(f"{name}: {error}")
"""


def test_executors_have_what_their_tasks_import(tmp_path):
    sources = [file for room in OF_TASKS for file in (INCLUDE / "lockstep").glob(room)]
    modules = [".".join(file.relative_to(INCLUDE).with_suffix("").parts) for file in sources]
    by_spark = (Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip")
    path = os.pathsep.join(map(str, [INCLUDE, *by_spark]))

    command = [executors_python(tmp_path / "python"), "-c", IMPORTS, *modules]
    done = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True)

    assert "lockstep.steps.ranges.land_range" in modules
    assert done.stdout == "", "requirements-executors.txt lacks what these import"
