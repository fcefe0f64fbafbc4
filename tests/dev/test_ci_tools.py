"""Tests that CI installs what some tests need, names what it could not install, and goes on."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

CI = Path(__file__).parents[2] / ".ci"
SHELL = ("bash", "cat", "dirname", "env", "mktemp", "rm", "tail", "timeout")
RECORDED = '#!/bin/sh\necho "{name} $*" >>"{calls}"\n{then}\n'


@pytest.fixture
def machine(tmp_path):
    """Returns `machine(name=shell)`: a PATH with a shell and these programs, which record how they are called."""
    tools, calls = tmp_path / "tools", tmp_path / "calls"
    tools.mkdir()
    calls.touch()
    for name in SHELL:
        (tools / name).symlink_to(shutil.which(name) or name)

    def made(**programs: str) -> tuple[str, Path]:
        for name, then in programs.items():
            program = tools / name.replace("_", "-")
            program.write_text(RECORDED.format(name=program.name, calls=calls, then=then))
            program.chmod(0o755)
        return str(tools), calls

    return made


def run(script: str, path: str, **environ: str):
    return subprocess.run(
        [CI / script], env={"PATH": path, **environ}, capture_output=True, text=True, timeout=60, check=False
    )


def test_what_cannot_be_installed_is_named_and_stops_nothing(machine):
    path, calls = machine(apt_get="echo 'no network'; exit 100", go="", make="echo 'no proxy'; exit 2")
    done = run("tools", path)
    assert done.returncode == 0, done.stderr
    assert [line.split(" failed in ")[0] for line in done.stderr.splitlines()] == [
        "apt-get update:",
        "apt-get install gcc libc6-dev:",
        "apt-get install spin:",
        "apt-get install prometheus:",
        "versitygw:",
    ]
    assert "what needs it is skipped: no network" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("what needs it is skipped: no proxy")
    assert calls.read_text().count("apt-get ") == 4


def test_what_is_there_is_not_installed_again(machine):
    path, calls = machine(apt_get="", gcc="", spin="", promtool="", versitygw="", make="")
    assert run("tools", path).returncode == 0
    assert calls.read_text().splitlines() == ["make versitygw"]


@pytest.mark.parametrize(
    ("environ", "user", "installs"),
    [({"CI": "true"}, 0, True), ({"CI": "true"}, 1000, False), ({}, 0, False), ({"CI": "false"}, 0, False)],
)
def test_only_root_on_a_machine_of_ci_installs(machine, environ, user, installs):
    path, calls = machine(id=f"echo {user}", make="", apt_get="", gcc="", spin="", promtool="", versitygw="")
    assert run("run", path, **environ).returncode == 0
    made = [line for line in calls.read_text().splitlines() if not line.startswith("id")]
    assert sorted(made[:-2]) == ["make check"] + ["make versitygw"] * installs  # at the same time
    assert made[-2:] == ["make bench-quick", "make test"]
