"""Tests the DAG of a pipeline of several topics: one DAG, their names as tags, and hours of all of them."""

from __future__ import annotations

import pytest

from lockstep import Append, Json, Pipeline, Topics
from lockstep.airflow import dag_for, hours_of


@pytest.mark.long
@pytest.mark.parametrize(
    ("topic", "tags", "about"),
    [
        ("eu", {"lockstep", "live", "eu"}, "Kafka topic eu to public.orders"),
        (("eu", "us"), {"lockstep", "live", "eu", "us"}, "Kafka topics eu, us to public.orders"),
        (Topics("e.*"), {"lockstep", "live"}, "Kafka topics like e.* to public.orders"),
    ],
)
def test_the_dag_names_its_topics_and_tells_hours_of_all_of_them(topic, tags, about):
    pipeline = Pipeline("orders", topic, Json("id string"), Append("public.orders"))
    dag = dag_for(pipeline)
    assert set(dag.tags) == tags
    assert dag.description.startswith(about)
    assert {"plan", "stage", "validate", "commit", "announce", "hours", "say_hour"} <= set(dag.task_ids)
    assert [asset.name for asset in dag.get_task("say_hour").outlets] == [hours_of(pipeline).name]
