"""Tests that a run's pipeline is the one beside its DAG file, so that DAG and pipeline are of one bundle version."""

from __future__ import annotations

import os
import zipfile
from contextlib import closing
from types import SimpleNamespace

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import Connection

from lockstep.airflow import door, pipeline_beside, submit
from lockstep.airflow.door import Door
from lockstep.context.environment import environment_set
from lockstep.core.errors import BadDefinition, Refusal

PIPELINE = """from lockstep import Append, Json, Pipeline
P = Pipeline("paid", "paid.{version}", Json("id string"), Append("public.paid"))
"""
DAG_FILE = """from lockstep.airflow import dags_for, pipeline_beside
dag, history = dags_for(pipeline_beside(__file__, "paid"))
"""
DOOR = Door("paid", "postgres_default", "kafka_default")


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """Leaves no folder of pipelines in the environment, as on a worker whose code comes with its bundles alone."""
    monkeypatch.delenv("LOCKSTEP_PIPELINES", raising=False)
    monkeypatch.setenv("LOCKSTEP_DSN", "postgresql://x")
    monkeypatch.setenv("LOCKSTEP_KAFKA", "k:9092")


@pytest.fixture(params=["include/pipelines", "pipelines"])
def version(request, tmp_path, monkeypatch):
    """Returns `version("v1")`: makes this version of a bundle and begins a task of its DAG. Returns the DAG."""

    def begun(name: str):
        pipelines, dags = tmp_path / name / request.param / "paid", tmp_path / name / "dags"
        pipelines.mkdir(parents=True)
        dags.mkdir()
        (pipelines / "__init__.py").write_text(PIPELINE.format(version=name))
        (pipelines / "transform.py").write_text(f"# {name}\ndef transform(df):\n    return df\n")
        (dags / "paid.py").write_text(DAG_FILE)
        bag = DagBag(dags, bundle_path=dags)
        assert bag.import_errors == {}
        monkeypatch.setattr(door, "get_current_context", lambda: {"dag": bag.dags["paid"]})
        return bag.dags["paid"]

    return begun


def test_each_version_of_a_bundle_has_its_own_pipeline_in_the_dag_and_in_its_tasks(version):
    for name in ("v1", "v2"):
        dag = version(name)

        with environment_set(DOOR.environment()):
            folder = DOOR.folder()

        assert dag.tags == {"lockstep", "live", f"paid.{name}"}
        assert folder.pipeline.topic == f"paid.{name}"
        assert folder.transform.startswith(f"# {name}\n")
    assert "LOCKSTEP_PIPELINES" not in os.environ


def test_executors_elsewhere_are_sent_the_pipelines_of_the_same_version(version, monkeypatch):
    monkeypatch.setattr(Connection, "get", lambda _: Connection(conn_id="s", conn_type="spark", host="spark://there"))
    for name in ("v1", "v2"):
        sent = submit.code_archive("s", version(name).fileloc, "paid")
        with closing(zipfile.ZipFile(sent)) as packed:
            assert packed.read("pipelines/paid/transform.py").startswith(f"# {name}\n".encode())


def test_the_variable_wins_over_the_folder_beside_the_dag_file(version, tmp_path, monkeypatch):
    dag = version("v1")
    version("v2")
    monkeypatch.setattr(door, "get_current_context", lambda: {"dag": SimpleNamespace(fileloc=dag.fileloc)})
    (root,) = {place.parent for place in (tmp_path / "v2").rglob("paid") if place.is_dir()}
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(root))
    assert DOOR.environment() == {}
    assert DOOR.folder().pipeline.topic == "paid.v2"
    assert pipeline_beside(dag.fileloc, "paid").topic == "paid.v2"


def test_a_pipeline_that_is_nowhere_above_the_dag_file_is_looked_for_as_the_command_line_does(tmp_path, monkeypatch):
    (tmp_path / "project" / "include" / "pipelines" / "paid").mkdir(parents=True)
    file = tmp_path / "project" / "include" / "pipelines" / "paid" / "__init__.py"
    file.write_text(PIPELINE.format(version="v1"))
    monkeypatch.chdir(tmp_path / "project")
    assert pipeline_beside(tmp_path / "elsewhere" / "dags" / "paid.py", "paid").topic == "paid.v1"
    with pytest.raises(Refusal, match="no pipeline 'unpaid'; there are: paid"):
        pipeline_beside(tmp_path / "elsewhere" / "dags" / "paid.py", "unpaid")
    file.write_text("P = ")
    with pytest.raises(BadDefinition, match=r"include/pipelines/paid/__init__\.py:1: syntax"):
        pipeline_beside(tmp_path / "project" / "dags" / "paid.py", "paid")
