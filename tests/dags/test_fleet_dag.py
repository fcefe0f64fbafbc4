"""Tests the DAG of a fleet without an Airflow: its tasks, its bounds, and a parse that loads no pipeline."""

from __future__ import annotations

import pytest
from airflow.serialization.serialized_objects import DagSerialization

from lockstep.airflow import fleet_dag
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
