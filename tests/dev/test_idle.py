"""Tests that the embedded Airflow rests as the figures of bench/README.md say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from lockstep.dev.servers.airflow_settings import AIRFLOW_SETTINGS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "bench" / "README.md").read_text(encoding="utf-8")


def test_the_page_tells_the_settings_under_which_it_was_measured_and_a_sum_below_a_tenth():
    part = PAGE[PAGE.index("## The embedded stack at rest") :]
    told = re.search(r"Now it is every (\d+) and (\d+)\.", part)
    assert told is not None
    assert told.groups() == (
        AIRFLOW_SETTINGS["AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL"],
        AIRFLOW_SETTINGS["AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL"],
    )
    figures = {name: float(now) for name, now in re.findall(r"^\| ([A-Za-z ]+) \| ([\d.]+) \|", part, re.MULTILINE)}
    whole = figures.pop("all")
    assert abs(sum(figures.values()) - whole) < 0.2
    assert whole < 10


def test_without_a_stack_the_measurement_names_the_command_that_starts_one(tmp_path):
    (tmp_path / ".lockstep").mkdir()
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "idle.py", "0"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "include"), "LOCKSTEP_HOME": str(tmp_path / ".lockstep")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no Airflow runs here.  Next: lockstep dev up --airflow\n"
