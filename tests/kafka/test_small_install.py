"""Tests that an installation without extras, on a system without /proc, runs, tells and verifies a pipeline of plain JSON.

Modules that no dependency of the package brings are as if they were not installed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest

from lockstep.installed import DISTRIBUTION, EXTRAS, install_of
from support.fakes import no_proc

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = re.compile(r"[\w.-]+")
# Each Python that a call starts reads the first, too.
HIDES = """
import json, os, sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
HIDDEN = set(json.loads(os.environ["HIDDEN"]))
sys.meta_path.insert(0, Hidden())
"""
NO_PROC = Path(no_proc.__file__).read_text()
CALLS = """
import json, sys
from lockstep.cli.app import main
for sys.argv in json.loads(sys.argv[1]):
    try:
        main()
    except SystemExit as end:
        print("EXIT", int(end.code), flush=True)
"""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_by(wanted: list[str]) -> set[str]:
    """Returns the distributions that pip would install for these requirements, as this Python has them."""
    found: set[str] = set()
    rest = [canonical(NAME.match(each)[0]) for each in wanted]
    while rest:
        name = rest.pop()
        if name in found:
            continue
        found.add(name)
        try:
            needs = requires(name) or []
        except PackageNotFoundError:
            continue
        rest += [canonical(NAME.match(each)[0]) for each in needs if "extra ==" not in each]
    return found


@pytest.fixture(scope="module")
def hidden() -> list[str]:
    """Returns the modules that are here and that the package's dependencies do not bring."""
    small = installed_by(PROJECT["dependencies"])
    modules = packages_distributions()
    gone = [name for name, of in modules.items() if not {canonical(each) for each in of} & (small | {"lockstep-kafka"})]
    assert {"airflow", "pyspark", "great_expectations", "pandas", "fastavro", "google"} <= set(gone)
    assert len(small) < 40
    return sorted(set(gone) - {"lockstep"})


def typed(drill, hidden, *calls: str) -> tuple[list[str], list[int], str]:
    """Returns what each call prints, its exit code, and what all of them complain about."""
    (drill.home.parent / "site").mkdir()
    (drill.home.parent / "site" / "sitecustomize.py").write_text(f"{NO_PROC}\n{HIDES}")
    done = subprocess.run(
        [sys.executable, "-c", CALLS, json.dumps([["lockstep", *call.split()] for call in calls])],
        env=os.environ
        | {
            "HIDDEN": json.dumps(hidden),
            "LOCKSTEP_DSN": drill.dsn,
            "LOCKSTEP_KAFKA": drill.kafka,
            "PYTHONPATH": os.pathsep.join([str(drill.home.parent / "site"), str(ROOT / "include")]),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    parts = re.split(r"EXIT (\d+)\n", done.stdout)
    return parts[:-1:2], [int(code) for code in parts[1::2]], done.stderr


def test_without_extras_plain_json_is_run_told_and_verified(drill, hidden):
    calls = (
        "run drill",
        "status drill",
        "lineage drill --partition 0 --offset 3",
        "verify drill --deep",
        "doctor drill",
    )

    said, codes, _ = typed(drill, hidden, *calls)

    assert codes[:4] == [0, 0, 0, 0], said
    assert drill.ask("select count(*), sum(n), count(distinct id) from public.drill") == [(150, sum(range(150)), 150)]
    assert "batch 1  live  committed  150 written" in said[0]
    assert "batch, batch 1, attempt 1" in said[2]
    assert "150 records decoded again and compared" in said[3]


def test_what_needs_an_extra_names_the_command_that_installs_it(drill, hidden):
    expected = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}}
    suite = drill.home / "drill" / "expectations.json"
    suite.write_text(json.dumps({"name": "drill", "expectations": [expected]}))

    _, codes, complaints = typed(drill, hidden, "run drill")

    assert codes == [1]
    assert "great_expectations, which is not installed  Next: pip install 'lockstep-kafka[expectations]'" in complaints
    assert drill.ask("select count(*) from public.drill") == [(0,)]


def test_each_extra_brings_what_it_is_named_for():
    extras = {
        name: {canonical(NAME.match(each)[0]) for each in wanted}
        for name, wanted in PROJECT["optional-dependencies"].items()
    }
    modules = packages_distributions()

    for module, extra in EXTRAS.items():
        assert {canonical(each) for each in modules[module]} & extras[extra], module
        assert install_of(f"{module}.inner") == f"pip install 'lockstep-kafka[{extra}]'"
    assert install_of("nobody") is install_of(None) is None
    assert PROJECT["name"] == DISTRIBUTION
