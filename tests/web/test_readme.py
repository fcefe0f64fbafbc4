"""Types the README's way to a pipeline of one's own on the servers of the tests, and looks at it in the pages.

`tests/dev/test_readme_from_a_clone.py` types all of it, from a clone on.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.scenes.drill import ask
from support.scenes.typed import MOST_COMMANDS, README, home_like_a_checkout, own_pipeline, typed, write_refunds

PIPELINES = Path(__file__).parents[2] / "include" / "pipelines"
OF_THE_STACK = ("make ", "source ", "lockstep dev up", "lockstep dev status")  # the tests have servers of their own


def shown_pieces():
    """Returns the commands that the README shows on the demo's pipelines, as they stand there."""
    part = README[README.index("Offsets behind the position") : README.index("`lockstep doctor` looks")]
    return [line[6:] for line in part.splitlines() if line.startswith("    $ ")]


@pytest.fixture
def at_home(database, kafka, tmp_path):
    with home_like_a_checkout(database, kafka, tmp_path, "refunds.v1") as found:
        yield found


@pytest.fixture
def drill(database, kafka):
    """The servers that the pages are of."""
    return SimpleNamespace(dsn=database, kafka=kafka)


def test_the_readmes_way_ends_in_pages_that_show_every_record(at_home, pages, monkeypatch):
    home, environ = at_home
    write_refunds(home)

    every = own_pipeline()
    printed = {each: typed(each, home, environ) for each in every if not each.startswith(OF_THE_STACK)}

    assert len(every) <= MOST_COMMANDS
    assert {each for each in every if each not in printed} == {
        "make up", "source .venv/bin/activate", "lockstep dev up --airflow", "lockstep dev status --password"
    }  # fmt: skip
    assert "refunds: every check holds." in printed["lockstep verify refunds --deep"]
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(home / "include" / "pipelines"))
    shown = pages("/dags/refunds/batches")
    assert (shown.status_code, "1,000" in shown.text) == (200, True), shown.text


@pytest.mark.long
def test_what_the_readme_shows_on_the_demos_pipelines_shows_something(database, kafka, tmp_path):
    every = shown_pieces()
    replay, produce, skip, fill, redrive, holes = every
    with home_like_a_checkout(database, kafka, tmp_path, "orders.v1", "clicks.v1") as (home, environ):
        for name in ("orders", "clicks"):
            shutil.copytree(PIPELINES / name, home / "include" / "pipelines" / name)
            for command in (f"migrate {name}", f"dev produce {name} --records 2000", f"run {name} --until-idle"):
                typed(f"lockstep {command}", home, environ)

        printed = {each: typed(each, home, environ) for each in every}

        fresh = ask(
            database, "select max(at) from lockstep.commit where batch_id = (select max(_batch) from public.clicks)"
        )
    assert "previewed: without --preview, it is done" in printed[replay]
    assert "1000 records onto orders.v1" in printed[produce]
    assert "orders.v1-0" in printed[skip]
    assert "0 rejected" in printed[fill]
    assert "orders: done" in printed[fill]
    assert "rejects: " in printed[redrive]
    assert "idle" not in printed[redrive]
    assert "skipped" not in printed[holes]
    assert fresh[0][0] is not None
