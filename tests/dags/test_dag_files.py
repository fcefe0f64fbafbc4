"""Tests the DAG files as Airflow and its users' usual checks see them: parsed, complete, and light."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.airflow import dags_of_all

CHECKOUT = Path(__file__).parents[2]
HEAVY = ("pyspark", "great_expectations", "confluent_kafka", "psycopg2", "pandas")
STEPS = ["plan", "stage", "validate", "commit", "announce"]
BEHIND = {"hourly_clicks"}  # what reads a pipeline's table, and is none itself
SENT = {"sales", "sales_history"}  # which has windows, and whose feed goes to a topic
SHOWN_AND_SENT = ["emit", "relay"]
# As in Astro's stock integrity test: variables and connections answer with anything, then every file is parsed.
PARSED = """
import json, os, sys
from unittest import mock
os.environ["AIRFLOW_HOME"] = {home!r}
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
from airflow.dag_processing.dagbag import DagBag
with mock.patch("os.getenv", side_effect=lambda name, default=None: default or "MOCKED"), \\
        mock.patch("airflow.sdk.Connection.get", side_effect=AssertionError("a connection was asked for while parsing")):
    bag = DagBag({dags!r})
print(json.dumps({{
    "errors": bag.import_errors,
    "dags": {{dag.dag_id: {{"tags": sorted(dag.tags), "retries": [task.retries for task in dag.tasks],
        "tasks": [task.task_id for task in dag.topological_sort()], "owner": dag.owner, "doc": bool(dag.doc_md),
        "timetable": type(dag.timetable).__name__, "runs": dag.max_active_runs, "params": sorted(dag.params),
        "schedule": getattr(dag.timetable, "expression", None),
        "native": dag.render_template_as_native_obj, "catchup": dag.catchup,
        "deferred": [task.task_id for task in dag.tasks if getattr(task, "deferrable", False)]}}
        for dag in bag.dags.values()}},
    "heavy": sorted({{name.partition(".")[0] for name in sys.modules}} & set({heavy!r})),
}}))
"""


def parsed(dags: Path, home: Path, **environ: str) -> dict:
    program = PARSED.format(home=str(home), dags=str(dags), heavy=HEAVY)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=os.environ | environ, cwd=home
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return parsed(CHECKOUT / "dags", tmp_path_factory.mktemp("airflow"))


def test_every_dag_file_parses_without_an_error_and_without_asking_for_a_connection(ours):
    assert ours["errors"] == {}
    assert {"orders", "clicks", "spend"} <= ours["dags"].keys()


def test_every_dag_has_tags_and_an_owner_and_every_task_at_least_two_retries(ours):
    for name, dag in ours["dags"].items():
        assert "lockstep" in dag["tags"], name
        lanes = {"history"} if name.endswith("_history") else set() if name in BEHIND else {"live"}
        assert {"history", "live"} & set(dag["tags"]) == lanes, f"{name}: one click shows DAGs of one kind"
        assert min(dag["retries"]) >= 2, name
        assert dag["owner"] not in {"", "airflow"}, name
        assert dag["doc"], name


def test_a_dag_makes_up_for_nothing_defers_nothing_and_renders_text_as_text(ours):
    for name, dag in ours["dags"].items():
        assert (dag["catchup"], dag["deferred"], dag["native"]) == (False, [], False), name


def test_a_pipelines_dag_is_the_five_steps_in_their_order_and_the_hours_behind_them(ours):
    for name in ours["dags"].keys() - BEHIND:
        if not name.endswith("_history"):
            tasks = ours["dags"][name]["tasks"]
            behind = SHOWN_AND_SENT if name in SENT else []
            assert tasks == [*STEPS, "hours", "say_hour", *behind], name


def test_a_dag_behind_a_pipeline_runs_once_for_each_hour_of_it(ours):
    for name in BEHIND:
        assert ours["dags"][name]["timetable"] == "PartitionedAssetTimetable"
        assert len((CHECKOUT / "dags" / f"{name}.py").read_text().splitlines()) < 40


def test_every_pipeline_has_a_second_dag_with_real_intervals_and_a_form(ours):
    live = {name for name in ours["dags"].keys() - BEHIND if not name.endswith("_history")}
    assert {f"{name}_history" for name in live} == ours["dags"].keys() - live - BEHIND
    for name in live:
        dag = ours["dags"][f"{name}_history"]
        behind = SHOWN_AND_SENT if name in SENT else []
        assert dag["tasks"] == ["ask", "rehearse", "approve", "approved", "work", "announce", *behind]
        assert (dag["timetable"], dag["runs"]) == ("CronDataIntervalTimetable", 3)
        assert dag["schedule"] == "0 0 * * *", "the fewest runs that do nothing"
        assert {"action", "reason", "from_time", "until_offsets", "preview", "approval"} <= set(dag["params"])


def test_parsing_a_dag_file_imports_nothing_heavy(ours):
    assert ours["heavy"] == []


def test_a_dag_file_that_lockstep_new_wrote_parses_like_ours(tmp_path):
    (tmp_path / "include" / "pipelines").mkdir(parents=True)
    (tmp_path / "include" / "pipelines" / "__init__.py").touch()
    (tmp_path / "dags").mkdir()
    (tmp_path / "airflow").mkdir()
    door = str(Path(sys.executable).with_name("lockstep"))
    subprocess.run([door, "new", "payments", "--topic", "payments.v1"], check=True, cwd=tmp_path, capture_output=True)

    found = parsed(tmp_path / "dags", tmp_path / "airflow", PYTHONPATH=str(tmp_path / "include"))

    assert found["errors"] == {}
    assert sorted(found["dags"]) == ["payments", "payments_history"]
    written = (tmp_path / "dags" / "payments.py").read_text().splitlines()
    assert len(written) < 10


def test_airflows_own_rules_for_dag_code_find_nothing():
    command = [str(Path(sys.executable).with_name("ruff")), "check", "--preview", "--select", "AIR", "dags", "include"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CHECKOUT)
    assert done.returncode == 0, done.stdout


def test_one_file_makes_the_dags_of_all_and_a_broken_definition_hides_no_other(ours, tmp_path):
    shutil.copytree(CHECKOUT / "include" / "pipelines", tmp_path / "include" / "pipelines")
    broken = tmp_path / "include" / "pipelines" / "spend" / "__init__.py"
    broken.write_text(broken.read_text().replace("topic=", "topics="))
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "all.py").write_text(
        "from lockstep.airflow import dags_of_all\n\n"
        'PAUSED = {"tags": ["of all"]}\n'
        'globals().update(dags_of_all(__file__, settings_of=lambda p: PAUSED if p.name == "clicks" else {},\n'
        '    upkeep={"schedule": "0 3 * * *"}))\n'
    )

    found = parsed(tmp_path / "dags", tmp_path)

    assert (found["errors"], found["heavy"]) == ({}, [])
    alone = {name: dag for name, dag in ours["dags"].items() if name not in BEHIND}
    names = {place.parent.name for place in (tmp_path / "include" / "pipelines").glob("*/__init__.py")}
    assert found["dags"].keys() == names | {f"{name}_history" for name in names - {"spend"}} | {"sold-upkeep"}
    kept = found["dags"]["sold-upkeep"]
    assert (kept["tasks"], kept["schedule"], kept["runs"], kept["catchup"]) == (["upkeep"], "0 3 * * *", 1, False)
    assert (kept["owner"], kept["retries"]) == (found["dags"]["sold"]["owner"], [2])
    assert {"lockstep", "upkeep"} < set(kept["tags"])
    for name in alone.keys() - {"spend", "spend_history", "clicks", "clicks_history"}:
        assert found["dags"][name] == alone[name], name
    assert found["dags"]["clicks"] == alone["clicks"] | {"tags": ["of all"]}
    spend = found["dags"]["spend"]
    assert (spend["tasks"], spend["tags"]) == (["definition"], ["broken", "lockstep"])
    assert (spend["schedule"], spend["doc"]) == ("0 * * * *", True)


DEFINED = """
from lockstep import Append, Json, Pipeline

P = Pipeline("{name}", "{name}.v1", Json("id string"), Append("public.{name}"), schedule={schedule!r})
"""


def defined(home: Path, name: str, text: str = DEFINED, schedule: str | None = "@hourly") -> str:
    """Writes a pipeline's folder. Returns the file of DAGs beside it."""
    (folder := home / "include" / "pipelines" / name).mkdir(parents=True)
    (folder / "__init__.py").write_text(text.format(name=name, schedule=schedule))
    return str(home / "dags" / "all.py")


def definition_of(dag) -> str | None:
    return dag.doc_md if dag.task_ids == ["definition"] else None


@pytest.mark.parametrize("text", [DEFINED, "from lockstep import Nothing\n"], ids=["by its name", "by an import"])
def test_a_broken_folder_of_a_dags_name_hides_no_history(tmp_path, text):
    defined(tmp_path, "orders")
    dags = dags_of_all(defined(tmp_path, "orders_history", text))
    assert sorted(dags) == ["orders", "orders_history", "orders_history-broken"]
    assert {"ask", "work"} < set(dags["orders_history"].task_ids)
    assert "orders_history/__init__.py" in definition_of(dags["orders_history-broken"])


def test_a_pipeline_that_does_not_fit_its_settings_hides_no_other(tmp_path):
    defined(tmp_path, "clicks", schedule=None)
    dags = dags_of_all(defined(tmp_path, "orders"), wake="kafka")
    assert sorted(dags) == ["clicks", "orders", "orders_history"]
    assert 'clicks: wake="kafka" is beside a schedule of times' in definition_of(dags["clicks"])
    assert definition_of(dags["orders"]) is None


def test_a_form_reaches_no_task_and_is_the_dags_own(ours):
    assert ours["dags"]["orders"]["params"] == ["retry", "take_over"]
    assert {"action", "from_time", "retry"} <= set(ours["dags"]["orders_history"]["params"])
    program = (
        "from lockstep.airflow import dags_for; from lockstep.adapters.folders import load\n"
        "live, history = dags_for(load('orders').pipeline)\n"
        "print([t.task_id for d in (live, history) for t in d.tasks if set(t.params) - {'reason'}])\n"
        "print(live.params.validate(), sorted(history.params.validate()) == sorted(history.params))\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert said.stdout.splitlines()[-2:] == ["[]", "{'retry': False, 'take_over': False} True"]
