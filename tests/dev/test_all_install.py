"""Tests that README's `pip install` commands and `lockstep demo` are enough, in an empty folder and environment.

A pipeline of one's own follows, in a project of its own and in Airflow's pages. An installation without extras then uses
the servers of that project.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import venv
from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import httpx
import psycopg2
import pytest

from dev.test_wheel import wheel  # noqa: F401 - a fixture
from lockstep.dev.servers.airflow_api import AirflowApi
from lockstep.installed import CHECKOUT
from support.scenes.clone import login_of
from support.scenes.readme_commands import commands
from support.scenes.typed import RECORDS, own_pipeline, write_refunds
from support.servers.scheduled import OVER, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Typed = Callable[..., str]

pytestmark = [pytest.mark.long, pytest.mark.server, pytest.mark.timeout(3600)]
# Variables of a company's proxy, and of a user's package settings.
KEPT = ("HOME", "PIP_", "SSL_", "HTTP_", "HTTPS_", "NO_PROXY", "http_", "https_", "no_proxy")
NOT_IN_A_SMALL_ONE = ("airflow", "pyspark", "great_expectations", "pandas")
REFUNDS = {(f"r-{number}", Decimal(f"{number}.50")) for number in range(RECORDS)}
MORE = {(f"s-{number}", Decimal(number)) for number in range(10)}


def typist(environment: Path) -> Typed:
    """Returns `typed(*words, cwd)`, which types a command as a user of this environment, and returns what it prints."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    kept |= {"PATH": f"{environment / 'bin'}:/usr/local/bin:/usr/bin:/bin"}

    def typed(*words: str, cwd: Path, **more: str) -> str:
        done = subprocess.run(words, cwd=cwd, env=kept | more, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    return typed


def test_the_package_alone_shows_the_demo_and_runs_pipelines_of_ones_own(wheel, tmp_path):  # noqa: F811 - the fixture
    here = tmp_path / "empty"
    here.mkdir()
    everything, small = (tmp_path / name for name in ("all", "small"))
    for environment in (everything, small):
        venv.create(environment, with_pip=True)
    for command in installing():
        typist(everything)(*shlex.split(command), cwd=beside(wheel, tmp_path / "dist"))
    typist(small)("pip", "install", "--quiet", str(wheel), cwd=here)

    the_demo(typist(everything), here)
    typed, shop = typist(everything), here / "shop"
    try:
        ones_own(typed, here, shop)
        without_extras(typist(small), here, json.loads(typed("lockstep", "dev", "env", "--json", cwd=shop)))
    finally:
        typed("lockstep", "dev", "down", cwd=shop)


def installing() -> list[str]:
    """Returns README's commands that install the wheel. Each package is compared with the hashes of a lock."""
    found = [command for command in commands() if command.startswith("pip install ")]
    assert [command for command in found if "--require-hashes" not in command and "--no-deps" not in command] == []
    return found


def beside(wheel: Path, folder: Path) -> Path:  # noqa: F811 - not the fixture
    """Returns a folder with the wheel and the locks, as `make wheel` writes it."""
    folder.mkdir(exist_ok=True)
    for file in (wheel, *(CHECKOUT / f"requirements{name}.txt" for name in ("", "-build", "-servers"))):
        shutil.copy(file, folder)
    return folder


def the_demo(typed: Typed, here: Path) -> None:
    try:
        said = typed("lockstep", "demo", cwd=here)
        verified = typed("lockstep", "verify", "orders", "--deep", cwd=here / "lockstep-demo")
    finally:
        typed("lockstep", "dev", "down", cwd=here / "lockstep-demo")

    assert [place.name for place in here.iterdir()] == ["lockstep-demo"]
    assert "50000 records decoded again and compared" in said
    assert "public.review_ratings: coordinates and contents compared with Kafka." in said
    assert "cd lockstep-demo" in said
    assert "orders: every check holds" in verified


def ones_own(typed: Typed, here: Path, shop: Path) -> None:
    """Types README's commands in a new project. Looks at rows, and at Airflow's pages with a login."""
    typed("lockstep", "init", "shop", cwd=here)
    write_refunds(shop)
    commands = [command for command in own_pipeline() if command.startswith("lockstep ")]

    printed = {command: typed(*shlex.split(command), cwd=shop) for command in ["lockstep dev up", *commands]}

    dsn = json.loads(typed("lockstep", "dev", "env", "--json", cwd=shop))["dsn"]
    assert rows(dsn, "refunds") == REFUNDS
    assert "refunds: every check holds." in printed["lockstep verify refunds --deep"]
    address, user, password = login_of(printed["lockstep dev status --password"])
    api = AirflowApi(address, user, password)
    assert httpx.get(f"{address}/lockstep/").status_code in {401, 403}, "nobody looks without a login"
    wait_for(lambda: "refunds" in api.dags(), "Airflow has parsed the DAG", 300)
    assert api.import_errors() == []
    assert (page_of(api, 1).count("refunds.v1-"), "1,000" in page_of(api, 1)) == (4, True)

    (shop / "more.jsonl").write_text("".join(json.dumps({"id": i, "amount": str(n)}) + "\n" for i, n in sorted(MORE)))
    typed(*shlex.split("lockstep dev produce refunds --from more.jsonl --key id"), cwd=shop)
    api.unpause("refunds")
    run_id = api.trigger("refunds")

    def over() -> str | None:
        (found,) = [run["state"] for run in api.runs("refunds") if run["dag_run_id"] == run_id]
        return found if found in OVER else None

    assert wait_for(over, "Airflow's run is over", 300) == "success"
    assert rows(dsn, "refunds") == REFUNDS | MORE
    assert "committed" in page_of(api, 2)


def page_of(api: AirflowApi, batch: int) -> str:
    page = api.page(f"/lockstep/dags/refunds/batches/{batch}")
    assert page.status_code == 200, page.text
    return page.text


def without_extras(typed: Typed, here: Path, environ: dict[str, Any]) -> None:
    """Runs, tells and verifies 1,000 records of plain JSON where Airflow, Spark and suites are not installed."""
    here, leads = here / "small", {"LOCKSTEP_DSN": environ["dsn"], "LOCKSTEP_KAFKA": environ["kafka"]}
    has = "import importlib.util as u, sys; print([m for m in sys.argv[1:] if u.find_spec(m)])"
    typed("lockstep", "init", "small", cwd=here.parent)
    write_refunds(here)
    assert typed("python", "-c", has, *NOT_IN_A_SMALL_ONE, cwd=here) == "[]\n"
    assert len(typed("pip", "list", "--format=freeze", cwd=here).splitlines()) < 35

    own = {"LOCKSTEP_JARS": str(here.parent / "shop" / ".lockstep" / "jars")}
    for words in (("dev", "up"), ("dev", "status"), ("migrate",), ("dev", "topic", "own.v1"), ("dev", "down")):
        typed("lockstep", *words, cwd=here, **own)

    printed = {}
    for command in own_pipeline():
        if command.startswith("lockstep ") and "dev up" not in command and "dev status" not in command:
            changed = command.replace("refunds", "returns").replace("returns.jsonl", "refunds.jsonl")
            printed[changed] = typed(*shlex.split(changed), cwd=here, **leads)
    status = json.loads(typed("lockstep", "status", "returns", "--json", cwd=here, **leads))

    assert rows(environ["dsn"], "returns") == REFUNDS
    assert "1000 written, 0 rejected" in printed["lockstep run returns --until-idle"]
    assert "1000 records decoded again and compared" in printed["lockstep verify returns --deep"]
    assert (sum(stream["position"] for stream in status["streams"]), status["unfinished"]) == (RECORDS, [])


def rows(dsn: str, table: str) -> set[tuple[str, Decimal]]:
    """Returns the rows of a table, and fails if one is there twice."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(f"select id, amount from public.{table}")
        found = cursor.fetchall()
    assert len(found) == len(set(found))
    return set(found)
