"""Tests that `make wheel` builds a package with all that an installation needs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPE = re.search(r'^\t@mkdir -p dist && \$\(BIN\)/python -c "(.+)"$', (ROOT / "Makefile").read_text(), re.MULTILINE)
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
PARTS = ("pyproject.toml", "README.md", "LICENSE", "include", "spark_jobs")
NEEDED = (
    "lockstep/cli/app.py",
    "lockstep/cli/templates/target.sql.jinja",
    "lockstep/ledger/schema.sql",
    "lockstep/web/templates/layout.html.jinja",
    "lockstep/adapters/jars.json",
    "lockstep/py.typed",
)


def test_the_wheel_holds_the_code_its_texts_and_the_jobs_and_no_pipeline(tmp_path):
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, tmp_path / part)
    (tmp_path / "dist").mkdir()
    assert RECIPE is not None

    done = subprocess.run([sys.executable, "-c", RECIPE[1]], cwd=tmp_path, capture_output=True, text=True, check=True)

    wheel = tmp_path / done.stdout.splitlines()[-1]
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name == f"lockstep_kafka-{VERSION}-py3-none-any.whl"
    assert [name for name in NEEDED if name not in names] == []
    assert any(name.endswith("share/lockstep/spark_jobs/stage_batch.py") for name in names)
    assert [name for name in names if name.startswith("pipelines")] == []


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
