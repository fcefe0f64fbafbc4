"""Changes a copy of the tree, and runs the tests on it with a separate pytest. Names the mutants that survive."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mutants.mutant import Drop, Edit, Mutant
    from support.servers.servers import Servers

ROOT = Path(__file__).parents[2]
BY_ASSERTION = {"AssertionError", "Failed"}
SECONDS = 240


def planted(home: Path, changes: Iterable[Edit | Drop]) -> Path:
    """Returns a copy of the engine and its tests with these changes, and of the schemas that answers are held to.

    Raises `StaleMutantError` if one does not apply.
    """
    without = shutil.ignore_patterns(
        "*.egg-info"
    )  # the bytecode comes along: compiling all would take seconds each time
    for name in ("include", "tests", "docs/json"):
        shutil.copytree(ROOT / name, home / name, ignore=without)
    for name in ("pyproject.toml", "ivy.xml"):
        shutil.copy(ROOT / name, home)
    for change in changes:
        change.apply(home)
    return home


def ran(tree: Path, servers: Servers, tests: Sequence[str], only: str | None, *, own_database: bool) -> dict:
    """Returns the outcome of the tests on that tree, with the session's servers."""
    told = tree / "report.json"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "LOCKSTEP_"))}
    environ |= {
        "PYTHONPATH": os.pathsep.join([str(tree / "include"), str(tree / "tests")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LOCKSTEP_TEST_HOME": str(servers.home),
        "LOCKSTEP_JARS": os.environ["LOCKSTEP_JARS"],
        "LOCKSTEP_MUTANT_REPORT": str(told),
    }
    template = f"lockstep_mutant_{os.getpid()}"
    if own_database:
        environ["LOCKSTEP_TEST_TEMPLATE"] = template
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants.report", "-p", "no:cacheprovider", "--tb=short"]
    command += ["-k", only] if only else []
    try:
        done = subprocess.run(
            [*command, *tests], cwd=tree, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    finally:
        if own_database:
            servers.drop(template)
            servers.drop(f"{template}_new")
    assert told.exists(), done.stdout + done.stderr
    about = json.loads(told.read_text(encoding="utf-8"))
    assert Path(about["lockstep"]).is_relative_to(tree), f"not the changed engine was tested: {about['lockstep']}"
    about["output"] = done.stdout
    return about


def survived(mutant: Mutant, home: Path, servers: Servers) -> list[str]:
    """Lists what does not show the mutant dead.

    These are tests that should be red and are not, or not by an assertion, and other tests that are red.
    """
    tree = planted(home, mutant.changes)
    own = any(change.is_of_the_database for change in mutant.changes)
    about = ran(tree, servers, mutant.others or mutant.red, mutant.only, own_database=own)
    found = about["tests"]
    wrong = [f"{test} did not run" for test in mutant.red if test not in found]
    for test, what in found.items():
        dead = what["outcome"] == "failed" and what["when"] == "call" and what["kind"] in BY_ASSERTION
        if test in mutant.red and not dead:
            wrong.append(f"{test} {what['outcome']}, {what['when']} {what['kind']}: {what['said']}")
        elif test not in mutant.red and what["outcome"] != "passed":
            wrong.append(f"{test} is red, too: {what['kind']}: {what['said']}")
    return wrong
