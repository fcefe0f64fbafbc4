"""Tests the DAG of one task without an Airflow: its tasks, its choice of a Spark, and what it refuses."""

from __future__ import annotations

import json

import pytest

from lockstep.adapters.airflow.names import AirflowFailException
from lockstep.airflow import dag_for, dags_for
from lockstep.airflow.job import MASTER, choose_spark
from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import Append, Json, Pipeline
from lockstep.core.settings import ENVIRONMENT, REMOTE

PIPELINE = Pipeline("orders", "orders.v1", Json("id string, n int"), Append("public.orders"))


def test_all_steps_are_one_task_and_the_history_dag_stays_as_it_is():
    live, history = dags_for(PIPELINE, tasks="one", spark_conn_id="warm")
    assert set(live.task_dict) == {"run", "hours", "say_hour"}
    assert [asset.uri for asset in live.get_task("run").outlets] == ["lockstep://public.orders/"]
    assert live.get_task("hours").upstream_task_ids == {"run"}
    assert set(history.task_dict) == set(dags_for(PIPELINE)[1].task_dict)


def test_another_word_for_the_tasks_is_refused():
    with pytest.raises(BadDefinition, match=r"orders: tasks is 'two': it must be \"each\" or \"one\""):
        dag_for(PIPELINE, tasks="two")


MASTERS = {
    "a local one": ({"conn_type": "spark", "host": "local[3]"}, {MASTER: "local[3]"}),
    "a Spark Connect server": (
        {"conn_type": "spark_connect", "host": "spark.example", "port": 15002},
        {REMOTE: "sc://spark.example:15002/"},
    ),
}


@pytest.mark.parametrize(("connection", "wanted"), MASTERS.values(), ids=MASTERS)
def test_the_connection_says_which_spark_reads(monkeypatch, connection, wanted):
    monkeypatch.setenv("AIRFLOW_CONN_SOME_SPARK", json.dumps(connection))
    for name in (MASTER, REMOTE):
        monkeypatch.setenv(name, "before")
        monkeypatch.delenv(name)
    choose_spark("some_spark")
    assert {name: ENVIRONMENT[name] for name in (MASTER, REMOTE) if name in ENVIRONMENT} == wanted


@pytest.mark.parametrize("master", ["spark://one.example", "yarn", ""])
def test_another_master_is_refused_with_both_ways_out(monkeypatch, master):
    monkeypatch.setenv("AIRFLOW_CONN_SOME_SPARK", json.dumps({"conn_type": "spark", "host": master}))
    with pytest.raises(
        AirflowFailException, match=r'some_spark leads to the master.*a Spark Connect server, or take tasks="each"'
    ):
        choose_spark("some_spark")
