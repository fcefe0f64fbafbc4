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
from importlib import resources
from importlib.metadata import EntryPoint
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from jsonschema import validate

from support.fakes.registry import a_registry

ROOT = Path(__file__).parents[2]
RECIPE = re.search(r'^\t@mkdir -p dist && \$\(BIN\)/python -c "(.+)"$', (ROOT / "Makefile").read_text(), re.MULTILINE)
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
VERSION = PROJECT["version"]
PARTS = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE", "ivy.xml", "dags", "include", "spark_jobs")
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
SUBJECTS = [
    "The guarantee",
    "Reading",
    "Writing",
    "Time",
    "Changing a pipeline",
    "Operating",
    "Requirements",
    "Known limits",
    "Upgrading",
]
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
DATE = r"\d{4}-\d\d-\d\d"
IN_AIRFLOW = """
import json
from airflow.models import Connection
from airflow.plugins_manager import _get_plugins
from airflow.providers_manager import ProvidersManager
from lockstep.airflow.submit import job
found, errors = _get_plugins()
manager = ProvidersManager()
hook = manager.hooks["lockstep_registry"]
print(json.dumps({
    "plugins": [(each.name, type(each.source).__name__) for each in found if each.name == "lockstep"],
    "errors": errors,
    "job": job("stage_batch.py"),
    "provider": manager.providers["lockstep-kafka"].version,
    "hook": [hook.hook_name, hook.hook_class_name],
    "fields": manager.field_behaviours["lockstep_registry"]["relabeling"],
    "links": sorted(link for link in manager.extra_links_class_names if "lockstep" in link),
    "tested": [
        Connection(conn_id=name, uri=uri).test_connection() for name, uri in (
            ("answers", "lockstep-registry://127.0.0.1:%d"), ("refuses", "lockstep-registry://127.0.0.1:1")
        )
    ],
}))
"""
# In one Python: an unpacked wheel has no bytecode yet.
IN_PROJECT = """
import os, sys
from lockstep.cli.app import main
def typed(*words):
    sys.argv = ["lockstep", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
typed("init", "shop", "--json")
os.chdir("shop")
typed("new", "refunds", "--topic", "refunds.v1")
from lockstep.adapters.folders import load
assert load("refunds").pipeline.topic == "refunds.v1"
typed("init", "--json")
from lockstep.dev.project import find_project
from lockstep.dev.setup import jars
project = find_project({})
print(jars.folder(), project.dags, project.exports({})["PYTHONPATH"], jars.SHIPPED)
"""


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

    def call(*words: str, cwd: str = ".", **more: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=folder / cwd,
            env=environ | {"PYTHONPATH": str(site), **more},
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
    for example in (ROOT / "include" / "pipelines").glob("[!_]*/*.*"):
        assert f"lockstep/project/{example.relative_to(ROOT)}" in names


def test_a_project_of_ones_own_lies_in_any_folder(installed, tmp_path):
    shop, package = tmp_path / "empty" / "shop", tmp_path / "site" / "lockstep"

    printed = installed("-c", IN_PROJECT)

    first, again = (json.loads(each) for each in re.findall(r"^\{$.*?^\}$", printed, re.MULTILINE | re.DOTALL))
    assert first["folder"] == again["folder"] == str(shop)
    assert first["made"] == ["dags", "include/pipelines", ".lockstep"]
    assert first["next"][0] == "cd shop"
    assert again["made"] == []
    assert sorted(place.name for place in (shop / "include" / "pipelines").glob("*")) == ["__init__.py", "refunds"]
    assert (shop / "dags" / "refunds.py").is_file()
    places = (shop / ".lockstep" / "jars", shop / "dags", shop / "include", package / "project")
    assert printed.splitlines()[-1].split() == [str(place) for place in places]


@pytest.mark.long
def test_airflow_finds_pages_connection_type_and_links_by_the_package_and_the_pages_once(installed, tmp_path):
    """The plugins folder of a checkout is there, too, as `lockstep dev up --airflow` and docker-compose.yaml have it."""
    with a_registry() as served:
        port = urlsplit(served.url).port
        found = json.loads(
            installed(
                "-c",
                IN_AIRFLOW % port,
                AIRFLOW_HOME=str(tmp_path / "airflow"),
                AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
                AIRFLOW__CORE__TEST_CONNECTION="Enabled",
                AIRFLOW_CONN_ANSWERS=f"lockstep-registry://127.0.0.1:{port}",
                AIRFLOW_CONN_REFUSES="lockstep-registry://127.0.0.1:1",
            ).splitlines()[-1]
        )

    assert found["plugins"] == [["lockstep", "EntryPointSource"]]
    assert [file for file in found["errors"] if "lockstep" in file] == []
    assert found["job"] == str(tmp_path / "site" / "lockstep" / "project" / "spark_jobs" / "stage_batch.py")
    assert found["provider"] == VERSION
    assert found["hook"] == ["Schema registry (Lockstep)", "lockstep.web.registry_hook.RegistryHook"]
    assert found["fields"] == {"schema": "http or https"}
    links = ("BatchLink", "DifferenceLink", "HistoryLink", "OneTaskLink")
    assert found["links"] == [f"lockstep.airflow.link.{link}" for link in links]
    assert found["tested"][0] == [True, f"http://127.0.0.1:{port} answers"]
    assert not found["tested"][1][0]
    assert "127.0.0.1:1" in found["tested"][1][1]


def test_the_entry_points_lead_to_what_airflow_takes():
    schema = json.loads(resources.files("airflow").joinpath("provider_info.schema.json").read_text())
    points = PROJECT["entry-points"]

    plugin = EntryPoint("lockstep", points["airflow.plugins"]["lockstep"], "airflow.plugins").load()
    told = EntryPoint("info", points["apache_airflow_provider"]["provider_info"], "apache_airflow_provider").load()()

    assert plugin.name == "lockstep"
    validate(told, schema)
    assert told["package-name"] == PROJECT["name"]
    (connection,) = told["connection-types"]
    classes = [connection["hook-class-name"], *told["extra-links"]]
    found = [EntryPoint("class", ":".join(each.rsplit(".", 1)), "any").load() for each in classes]
    assert found[0].conn_type == connection["connection-type"]
    assert found[0].hook_name == connection["hook-name"]
    assert {link for link in vars(sys.modules["lockstep.airflow.link"]) if link.endswith("Link")} == {
        *(each.__name__ for each in found[1:]),
        "BaseOperatorLink",
    }


def test_the_extra_server_is_what_make_servers_installs_and_all_is_every_extra():
    extras = PROJECT["optional-dependencies"]
    (everything,) = extras["all"]

    assert extras["server"] == PYPROJECT["dependency-groups"]["servers"]
    assert set(everything.partition("[")[2].rstrip("]").split(",")) == set(extras) - {"all", "dev", "registry"}
    locked = re.search(r"^EXTRAS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert {*locked, "server"} == set(extras) - {"all", "dev", "registry"}


def test_the_changelog_describes_the_first_release_by_subject_and_later_ones_by_kind_of_change():
    newest_first = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    headings = [re.findall(r"^### (.+)$", section, re.MULTILINE) for section in newest_first]
    *later, first = [section.splitlines()[0] for section in newest_first]

    assert re.fullmatch(rf"0\.2\.0, first release \(({DATE}|unreleased)\)", first)
    assert headings[-1] == SUBJECTS
    assert len(newest_first[-1].split()) <= 1_600, "describe what a user gets, not each step towards it"
    assert all(re.fullmatch(rf"[\d.]+ \(({DATE}|unreleased)\)", title) for title in later)
    assert {heading for each in headings[:-1] for heading in each} <= KINDS
    assert re.match(r"[\d.]+", newest_first[0])[0] == VERSION
    assert not any("(unreleased)" in title for title in [*later, first][1:])
    assert not any("\n- " in section.partition("\n### ")[0] for section in newest_first), "a line needs a heading"


def test_pages_name_the_wheel_of_this_version():
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    named = {name for page in pages for name in re.findall(r"(lockstep[\w.-]*)-py3-none-any\.whl", page.read_text())}
    assert named == {f"lockstep_kafka-{VERSION}", "lockstep_kafka-VERSION"}
