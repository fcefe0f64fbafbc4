"""Tests that `make wheel` builds a package with all that an installation needs, and that works outside of a checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPE = re.search(r'^\t@mkdir -p dist && \$\(BIN\)/python -c "(.+)"$', (ROOT / "Makefile").read_text(), re.MULTILINE)
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
VERSION = PROJECT["version"]
PARTS = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "ivy.xml", "dags", "include", "spark_jobs")
NEEDED = (
    "lockstep/cli/app.py",
    "lockstep/cli/templates/target.sql.jinja",
    "lockstep/ledger/schema.sql",
    "lockstep/web/templates/layout.html.jinja",
    "lockstep/adapters/jars.json",
    "lockstep/py.typed",
    "lockstep/project/ivy.xml",
    "lockstep/project/spark_jobs/stage_batch.py",
    "lockstep/project/dags/orders.py",
    "lockstep/project/include/pipelines/orders/target.sql",
)
WHERE = "import lockstep.installed as i, lockstep.airflow.submit as s; print(i.SHIPPED, s.job('stage_batch.py'))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("sources")
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, place / part)
    (place / "dist").mkdir()
    assert RECIPE is not None
    done = subprocess.run([sys.executable, "-c", RECIPE[1]], cwd=place, capture_output=True, text=True, check=True)
    return place / done.stdout.splitlines()[-1]


@pytest.fixture
def installed(wheel, tmp_path):
    """Returns `call(*words)`, which calls Python in an empty folder, on the unpacked wheel in `site`."""
    site, folder = tmp_path / "site", tmp_path / "empty"
    zipfile.ZipFile(wheel).extractall(site)
    folder.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}

    def call(*words: str, cwd: str = ".") -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=folder / cwd,
            env=environ | {"PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    return call


def test_the_wheel_holds_the_code_its_texts_the_jobs_and_the_examples_and_brings_no_module_pipelines(wheel):
    names = zipfile.ZipFile(wheel).namelist()

    assert wheel.name == f"lockstep_kafka-{VERSION}-py3-none-any.whl"
    assert [name for name in NEEDED if name not in names] == []
    assert [name for name in names if "__pycache__" in name] == []
    assert {name.partition("/")[0] for name in names} == {"lockstep", f"lockstep_kafka-{VERSION}.dist-info"}
    for example in (ROOT / "include" / "pipelines").glob("*/*.*"):
        assert f"lockstep/project/{example.relative_to(ROOT)}" in names


def test_a_project_of_ones_own_lies_in_any_folder(installed, tmp_path):
    command = ("-c", "from lockstep.cli.app import main; main()")

    made = json.loads(installed(*command, "init", "shop", "--json"))
    installed(*command, "new", "refunds", "--topic", "refunds.v1", cwd="shop")

    shop, package = tmp_path / "empty" / "shop", tmp_path / "site" / "lockstep"
    assert made["folder"] == str(shop)
    assert made["made"] == ["dags", "include/pipelines", ".lockstep"]
    assert made["next"][0] == "cd shop"
    assert sorted(place.name for place in (shop / "include" / "pipelines").glob("*")) == ["__init__.py", "refunds"]
    assert (shop / "dags" / "refunds.py").is_file()
    assert "refunds" in installed(*command, "check", "refunds", cwd="shop")
    assert json.loads(installed(*command, "init", "--json", cwd="shop"))["made"] == []
    job = package / "project" / "spark_jobs" / "stage_batch.py"
    assert installed("-c", WHERE).split() == [str(package / "project"), str(job)]
    home = "from lockstep.dev.setup import jars; from lockstep.dev.project import find_project as f; p = f({})"
    printed = installed("-c", f"{home}; print(jars.folder(), p.dags, p.exports({{}})['PYTHONPATH'])", cwd="shop")
    assert printed.split() == [str(shop / ".lockstep" / "jars"), str(shop / "dags"), str(shop / "include")]


def test_the_extra_server_is_what_make_servers_installs_and_all_is_every_extra():
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]

    assert extras["server"] == PYPROJECT["dependency-groups"]["servers"]
    assert set(everything.partition("[")[2].rstrip("]").split(",")) == set(extras) - {"all", "dev", "registry"}
    locked = re.search(r"^EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert {*locked, "server"} == set(extras) - {"all", "dev", "registry"}


def test_the_changelog_begins_with_this_version_and_tells_what_is_added_changed_and_fixed():
    text = (ROOT / "CHANGELOG.md").read_text()
    newest, *_ = re.findall(r"^## (\S+)", text, re.MULTILINE)
    assert newest == VERSION
    sections = [
        re.findall(r"^### (\S+)$", each, re.MULTILINE) for each in re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    ]
    assert {name for each in sections for name in each} <= {"Added", "Changed", "Fixed"}
    outside = [line for line in text[: text.index("### ")].splitlines() if line.startswith("- ")]
    assert outside == [], "a line stands below Added, Changed or Fixed"


def test_pages_name_the_wheel_of_this_version():
    named = {
        name
        for page in (ROOT / "docs").rglob("*.md")
        for name in re.findall(r"lockstep_kafka-(\d[\d.]*)-py3", page.read_text())
    }
    assert named == {VERSION}
