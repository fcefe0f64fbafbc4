"""Tests the DAG of a fleet without an Airflow: its tasks, its bounds, and a parse that loads no pipeline."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from airflow.sdk import AssetAlias
from airflow.serialization.serialized_objects import DagSerialization

from lockstep.adapters.airflow.names import AirflowSkipException
from lockstep.airflow import fleet_dag
from lockstep.airflow.fleet import work
from lockstep.core.errors import BadDefinition


def test_a_look_names_the_work_and_mapped_tasks_do_it(tmp_path):
    dag = fleet_dag(str(tmp_path / "nothing.py"), at_once=3, default_args={"pool": "fleet"}, schedule="*/5 * * * *")

    order = [task.task_id for task in dag.topological_sort()]
    assert (dag.dag_id, order, dag.max_active_runs, dag.catchup) == (
        "fleet",
        ["look", "work", "left", "alone"],
        1,
        False,
    )
    known = {task["__var"]["task_id"]: task["__var"] for task in DagSerialization.to_dict(dag)["dag"]["tasks"]}
    assert {name for name, task in known.items() if task.get("_is_mapped")} == {"work", "alone"}
    for name in ("work", "alone"):
        given = dag.get_task(name).partial_kwargs
        assert (given["max_active_tis_per_dag"], given["retries"], given["pool"]) == (3, 2, "fleet")
        assert [alias.name for alias in given["outlets"]] == ["lockstep.fleet"]
    assert dag.get_task("look").outlets == []


@pytest.mark.parametrize(("bound", "value"), [("in_turn", 0), ("at_once", "4"), ("in_turn", True)])
def test_a_bound_that_is_no_number_is_refused(tmp_path, bound, value):
    with pytest.raises(BadDefinition, match=rf"shops: {bound} is .*: it must be a whole number from 1 on"):
        fleet_dag(str(tmp_path / "nothing.py"), "shops", **{bound: value})


FLEET = work.Fleet("dags/fleet.py", "postgres", "kafka", "registry", "spark", AssetAlias("lockstep.fleet"))


@pytest.fixture
def in_a_try(monkeypatch):
    """Returns `begin(number)`, which makes this process a try of a task. Returns the XComs that it pushes."""

    def begin(number):
        pushed = {}
        ti = SimpleNamespace(try_number=number, xcom_push=lambda key, value: pushed.update({key: value}))
        for module in ("lockstep.airflow.fleet.work", "lockstep.airflow.door"):
            monkeypatch.setattr(f"{module}.get_current_context", lambda: {"ti": ti})
        return pushed

    return begin


def outcomes(monkeypatch, by_name):
    """Makes each pipeline end like this: with an error, or with facts of its batch. Returns those that were run."""
    ran = []

    def run(_fleet, name, page, *, is_retry):
        ran.append((name, is_retry))
        if isinstance(by_name[name], Exception):
            raise by_name[name]
        page.push(**by_name[name])
        return by_name[name]["batch"]

    monkeypatch.setattr(work, "_run", run)
    return ran


def test_a_pipeline_that_fails_is_left_and_the_next_one_goes_on(monkeypatch, in_a_try):
    found = {"a": {"batch": 7}, "b": RuntimeError("odd"), "c": AirflowSkipException("idle"), "d": {"batch": 8}}
    ran, pushed = outcomes(monkeypatch, found), in_a_try(1)
    assert work.work_in_turn(FLEET, [*found]) == ["b"]
    assert ran == [(name, False) for name in "abcd"]
    assert pushed == {"done": {"a": {"batch": 7}, "d": {"batch": 8}}}


def test_a_second_try_leaves_all_to_tasks_of_their_own(monkeypatch, in_a_try):
    ran, pushed = outcomes(monkeypatch, {}), in_a_try(2)
    assert work.work_in_turn(FLEET, ["a", "b"]) == ["a", "b"]
    assert (ran, pushed) == ([], {})


def test_a_task_of_its_own_announces_what_is_committed_and_fails_as_it_fails(monkeypatch, in_a_try):
    ran, pushed = outcomes(monkeypatch, {"a": {"batch": 7}, "b": RuntimeError("odd")}), in_a_try(1)
    assert (work.work_alone(FLEET, "a"), ran, pushed) == (7, [("a", True)], {"batch": 7})
    with pytest.raises(RuntimeError, match="odd"):
        work.work_alone(FLEET, "b")


@pytest.mark.parametrize(("most", "portions"), [("1024", 7), ("7", 7), ("3", 3), ("1", 1)])
def test_a_look_makes_no_more_portions_than_airflow_maps(monkeypatch, tmp_path, most, portions):
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", most)
    names = [f"p{n}" for n in range(7)]
    looked = [SimpleNamespace(pipeline=name, planned=None) for name in names]
    monkeypatch.setattr("lockstep.context.systems.open_context", lambda: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr("lockstep.steps.fleet.look.look_at_all", lambda *_: looked)
    monkeypatch.setattr(work, "connection_environment", lambda *_, **__: {})
    (tmp_path / "include" / "pipelines").mkdir(parents=True)
    fleet = work.Fleet(str(tmp_path / "dags" / "fleet.py"), "postgres", "kafka", "registry", "spark", FLEET.tables)

    found = work.find_work(fleet, 1)

    assert (len(found), [name for portion in found for name in portion]) == (portions, names)


def test_pipelines_without_a_task_of_their_own_wait_for_the_next_run_by_name(monkeypatch, caplog):
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "3")
    with caplog.at_level("WARNING"):
        assert work.left_to_tasks([["a", "b"], [], ["c", "d", "e"]]) == ["a", "b", "c"]
    assert "d, e wait for the next run: [core] max_map_length is 3" in caplog.text
