"""Tests the public names: pipelines, DAG files, templates and pages import from a few modules alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lockstep
from lockstep import calls, notebook
from lockstep.core import staging
from lockstep.core.lake import iceberg
from lockstep.core.pipeline import definition

ROOT = Path(__file__).parents[2]
PUBLIC = {"lockstep", "lockstep.airflow", "lockstep.results", "lockstep.testing"}
CALLS = {
    "plan": calls.plan_pipeline,
    "replay": calls.replay_pipeline,
    "run": calls.run_pipeline,
    "status": calls.pipeline_status,
    "verify": calls.verify_pipeline,
}
NOT_FOR_PIPELINES = {"start_of", "Target"}
CODE = sorted([*(ROOT / "dags").rglob("*.py"), *(ROOT / "include" / "pipelines").rglob("*.py")])
TEXTS = sorted(
    [
        *(ROOT / "include" / "lockstep" / "cli" / "templates").iterdir(),
        *(ROOT / "docs").glob("*.md"),
        ROOT / "README.md",
    ]
)
IMPORT = re.compile(r"^\s*(?:from|import) (lockstep[\w.]*)", re.MULTILINE)


def test_each_name_of_a_definition_is_public_and_the_same_object():
    elsewhere = {"Iceberg": iceberg, "Run": staging, "records": notebook, "rows": notebook}
    assert set(lockstep.__all__) == set(definition.__all__) - NOT_FOR_PIPELINES | elsewhere.keys() | CALLS.keys()
    assert lockstep.__all__ == sorted(lockstep.__all__)
    assert all(getattr(lockstep, name) is function for name, function in CALLS.items())
    for name in set(lockstep.__all__) - CALLS.keys():
        assert getattr(lockstep, name) is getattr(elsewhere.get(name, definition), name)
    assert set(lockstep.__all__) <= set(dir(lockstep))
    with pytest.raises(AttributeError, match="module 'lockstep' has no attribute 'Kafka'"):
        lockstep.Kafka  # noqa: B018


def test_the_old_path_of_a_definition_leads_to_the_same_object_and_warns():
    with pytest.warns(DeprecationWarning, match="old path: from lockstep import Append"):
        from lockstep.core.definition import Append  # noqa: PLC0415 - the import is what is tested
    assert Append is lockstep.Append


def test_importing_the_package_imports_none_of_its_modules():
    look = "import sys, lockstep; print([name for name in sys.modules if name.startswith('lockstep.')])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("file", CODE, ids=lambda file: str(file.relative_to(ROOT)))
def test_pipelines_and_dag_files_import_public_names_alone(file):
    modules = {
        each
        for node in ast.walk(ast.parse(file.read_text()))
        for each in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        if each.split(".")[0] == "lockstep"
    }
    assert modules <= PUBLIC


@pytest.mark.parametrize("file", TEXTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_templates_and_pages_import_public_names_alone(file):
    assert set(IMPORT.findall(file.read_text())) <= PUBLIC
