"""Tests the settings that a Spark driver gets by arguments, and by the file of its machine."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.adapters.withheld import of_submitters
from lockstep.context.environment import load_environment
from lockstep.context.submitted import submitted_for, submitter
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller, TaskRun
from lockstep.core.settings import airflow_name
from support.scenes.logins import MAKE_STAGER

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"
RUN = TaskRun("orders", "manual__2026-01-01T00:00:00+00:00", "0190-ab/c d", 3, "work/on it", 12)


@pytest.mark.parametrize(
    "flags", [{}, {"take_over": True}, {"retry": True}], ids=["without permission", "to take over", "to retry"]
)
@pytest.mark.parametrize("run", [RUN, TaskRun("orders", "scheduled", None, None)], ids=["a try", "a run"])
@pytest.mark.parametrize("name", [None, "eu-1"], ids=["one Airflow", "one of several"])
def test_a_driver_finds_in_its_arguments_the_task_that_it_works_for(run, flags, name):
    run = replace(run, airflow=name)
    told = submitter(["orders", "17", *submitted_for(Caller("anybody", task_run=run, **flags))])

    assert told == Caller(f"orders run {run.dag_run_id}{' of eu-1' if name else ''}", task_run=run, **flags)


@pytest.mark.parametrize("name", ["a b", "-eu", "é", "x" * 64, "eu/1"])
def test_a_name_of_an_airflow_that_no_owner_can_have_is_refused_in_a_line(name):
    assert airflow_name({"LOCKSTEP_AIRFLOW_NAME": "eu-1"}) == "eu-1"
    assert airflow_name({}) is None
    with pytest.raises(Refusal, match=r"LOCKSTEP_AIRFLOW_NAME is .*: a name has 1 to 63 letters"):
        airflow_name({"LOCKSTEP_AIRFLOW_NAME": name})


def test_a_driver_without_a_task_works_for_itself():
    assert submitter(["orders", "17"]).task_run == TaskRun()


@pytest.mark.parametrize(
    "given",
    [
        "orders",
        "orders/run/instance/1",
        "/run/instance/1/stage/",
        "orders/run/instance/first/stage/",
        "orders/run/instance/1/stage/first",
        "",
    ],
)
def test_arguments_that_name_no_task_are_refused(given):
    with pytest.raises(Refusal, match="--for takes DAG/RUN/INSTANCE/TRY/TASK/INDEX"):
        submitter(["--for", given])


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Returns `file(text, mode)`, which LOCKSTEP_ENVIRONMENT then names."""
    place = tmp_path / "lockstep.json"

    def write(text: str, mode: int = 0o600) -> Path:
        place.write_text(text)
        place.chmod(mode)
        return place

    with monkeypatch.context() as patch:
        patch.setattr(
            os, "environ", dict(os.environ) | {"LOCKSTEP_ENVIRONMENT": str(place), "LOCKSTEP_KAFKA": "mine:9092"}
        )
        patch.setattr("lockstep.context.environment.ENVIRONMENT", os.environ)
        yield write


def test_the_file_of_the_page_is_taken_and_a_drivers_own_variables_win(file):
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    file(text)

    load_environment()

    known = json.loads(text)
    assert {name: os.environ[name] for name in known} == known | {"LOCKSTEP_KAFKA": "mine:9092"}


def test_the_statements_of_the_page_are_those_that_the_tests_run():
    (statements,) = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert statements == MAKE_STAGER.format(stager="lockstep_stage", run="lockstep_airflow")


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ('{"LOCKSTEP_DSN": "postgresql://u:canary@h/d"}', 0o640, "may be read by others.*chmod 600"),
        (
            '{"LOCKSTEP_DSN": "postgresql://u:canary@h/d", "LOCKSTEP_DNS": "canary"}',
            0o600,
            "no driver takes LOCKSTEP_DNS",
        ),
        ('{"PATH": "canary"}', 0o600, "no driver takes PATH"),
        ('{"LOCKSTEP_DSN": {"password": "canary"}}', 0o600, "whose values are texts"),
        ('["canary"]', 0o600, "one JSON object"),
        ("LOCKSTEP_DSN=canary", 0o600, "it is no JSON"),
    ],
    ids=["open to others", "a misspelt name", "a name of others", "a document", "a list", "no JSON"],
)
def test_a_file_that_cannot_be_meant_is_refused_without_its_values(file, text, mode, why):
    place = file(text, mode)

    with pytest.raises(Refusal) as refused:
        load_environment()

    assert re.search(f"LOCKSTEP_ENVIRONMENT: {place}.*{why}", str(refused.value)), refused.value
    assert "canary" not in str(refused.value)
    assert "LOCKSTEP_DSN" not in os.environ


def test_a_file_that_is_not_there_is_refused_by_its_place(file):
    place = file("{}")
    place.unlink()
    with pytest.raises(Refusal, match=f"{place}: it cannot be read here: No such file"):
        load_environment()


def test_a_program_that_submits_to_a_cluster_has_no_secret_to_send():
    given = {"PATH": "/bin", "JAVA_HOME": "/java", "SPARK_LOCAL_IP": "127.0.0.1", "LC_ALL": "C"}
    secret = {
        "LOCKSTEP_DSN": "x",
        "PGPASSWORD": "x",
        "AIRFLOW_CONN_X": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "SPARK_REMOTE": "x",
    }
    assert of_submitters(given | secret | {"PYTHONPATH": "x", "PATHS": "x"}) == given
