"""Types every command where no extra is installed: each ends with a result, or with one line that names the extra."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from dev.test_wheel import wheel  # noqa: F401 - a fixture
from kafka.test_small_install import PROJECT, installed_by
from support.scenes.every_command import commands_without_a_call, flaws, type_every_command

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]
NEEDS = {
    "demo": "spark",
    "dev up --airflow": "airflow",
    "dev up --spark-connect": "spark",
    "migrate sold": "lake",
    "run bills": "registry",
    "canary refunds --transform new.py": "spark",
}
WORKS = (
    *("init shop --examples", "dev up", "dev status", "dev env", "migrate", "migrate refunds", "dev down"),
    *("dev topic refunds --partitions 4", "dev produce refunds --from refunds.jsonl --key id", "check refunds"),
    *(
        "run refunds --until-idle",
        "status refunds",
        "verify refunds --deep",
        "replay refunds --batch BATCH",
        "batch BATCH",
        "reap",
    ),
)


def test_every_command_is_typed():
    assert commands_without_a_call() == []


@pytest.fixture
def small(wheel, tmp_path):  # noqa: F811 - the fixture
    """Returns the Python of an environment with the wheel and its dependencies, which are links to those of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "small")], check=True)
    (packages,) = (tmp_path / "small" / "lib").glob("python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    for name in installed_by(PROJECT["dependencies"]):
        with suppress(PackageNotFoundError):  # one that other platforms need
            found = distribution(name)
            for top in {file.parts[0] for file in found.files or () if file.parts[0] not in {"..", "__pycache__"}}:
                (packages / top).symlink_to(Path(str(found.locate_file(top))).resolve())
    python = tmp_path / "small" / "bin" / "python"
    door = python.with_name("lockstep")
    door.write_text(f"#!{python}\nfrom lockstep.cli.app import main\nmain()\n")
    door.chmod(0o755)
    return str(python)


def test_each_ends_with_a_result_or_names_the_extra_that_it_lacks(small, tmp_path):
    (tmp_path / "empty").mkdir()
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("LOCKSTEP_", "SPARK_", "PYTHON"))
    }

    # A registry that no command reaches: what reads by it lacks its extra first.
    environ |= {"LOCKSTEP_JARS": os.environ["LOCKSTEP_JARS"], "LOCKSTEP_REGISTRY": "http://127.0.0.1:1"}

    typed = type_every_command(small, tmp_path / "empty", environ)

    assert flaws(typed) == []
    ends = {each.call: each for each in typed}
    assert {call: ends[call].err for call in WORKS if ends[call].code} == {}
    for call, extra in NEEDS.items():
        assert f"pip install 'lockstep-kafka[{extra}]'" in ends[call].err, call
