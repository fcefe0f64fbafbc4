"""Tests the task that sends a feed behind each run: where it stands, what it tells, and how it fails."""

from __future__ import annotations

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from airflow.serialization.serialized_objects import DagSerialization

from feed.sends import Sends
from lockstep.adapters.airflow.names import AirflowFailException, AirflowSkipException
from lockstep.airflow import dags_for, relay
from lockstep.airflow.dag import door_of
from lockstep.airflow.door import as_airflow_errors
from lockstep.core.changes.person import Person
from lockstep.core.pipeline.definition import Append, Avro, Feed, Json, Pipeline, Send, Topic, Upsert
from lockstep.steps.feed.relay import restart
from support.fakes.asset_events import AssetEvents
from support.scenes.odd_logs import recreate

FORMAT = Json("id string, n int", key="id")
STEPS = {"plan", "stage", "validate", "commit", "announce", "hours", "say_hour"}
HISTORY_STEPS = {"ask", "rehearse", "approve", "approved", "work", "announce"}


def pipeline_into(target) -> Pipeline:
    return Pipeline("clean", "clicks.raw", FORMAT, target)


@pytest.mark.parametrize(
    "target",
    [
        Send(Topic("clicks.v1"), key=("id",)),
        Upsert("public.clicks", key=("id",), feed=Feed(to=Topic("clicks.v1"))),
    ],
)
def test_both_dags_have_a_relay_behind_announce_where_a_feed_has_a_topic(target):
    live, history = dags_for(pipeline_into(target))
    assert set(live.task_ids) == {*STEPS, "relay"}
    assert set(history.task_ids) == {*HISTORY_STEPS, "relay"}
    for dag in (live, history):
        task = dag.get_task("relay")
        assert task.upstream_task_ids == {"announce"}
        assert not task.downstream_task_ids
        assert (task.trigger_rule, task.retries >= 2) == ("none_failed", True)
        assert [asset.name for asset in task.outlets] == ["kafka://clicks.v1"]


@pytest.mark.parametrize("target", [Append("public.clicks"), Append("public.clicks", feed=Feed())])
def test_a_definition_without_a_topic_keeps_its_tasks(target):
    live, history = dags_for(pipeline_into(target))
    assert set(live.task_ids) == STEPS
    assert set(history.task_ids) == HISTORY_STEPS


def test_only_values_in_avro_lead_to_the_registry():
    for value, connection in ((None, None), (Avro(), "registry")):
        pipeline = pipeline_into(Send(Topic("clicks.v1", value=value)))
        assert door_of(pipeline, "postgres", "kafka", "registry").registry_conn_id == connection


class DoorHere:
    """A door that leads to the servers of this test."""

    pipeline = "drill"

    def __init__(self, here: Sends) -> None:
        self.here = here

    def folder(self):
        return self.here.folder

    @contextmanager
    def opened(self, _step: str):
        with as_airflow_errors():
            yield self.here.at


@pytest.fixture
def sends(drill, topic, monkeypatch):
    """Returns the drill, which sends its rows, and a function that is a try of its task, with the events that it has told."""
    here = Sends(drill)
    here.into(topic(partitions=2))
    airflow = AssetEvents()
    ((name, asset),) = relay.topic_assets(here.folder.pipeline).items()
    monkeypatch.setattr(relay, "get_current_context", lambda: context)
    monkeypatch.setattr(relay, "task_caller", lambda: SimpleNamespace(owner="host/1/1"))
    context: dict = {}

    def send(*, is_killed: bool = False) -> list[dict]:
        airflow.begin([asset])
        context.update(airflow.context())
        relay.send_changes(DoorHere(here), name, asset)  # type: ignore[arg-type]
        if not is_killed:
            airflow.succeed()
        return airflow.extras.get(asset.name, [])

    return here, send


def test_what_was_sent_is_told_by_its_numbers_and_nothing_to_send_is_skipped(sends):
    here, send = sends
    here.drain()
    assert send() == [{"first": 0, "last": 149}]
    assert len(here.sent()) == 150
    with pytest.raises(AirflowSkipException, match="nothing waits to be sent"):
        send()


def test_what_a_try_has_sent_that_died_is_told_by_the_next_one(sends, produce):
    here, send = sends

    def more(records: int) -> None:
        produce(here.drill.topic, [(f"k{i}", json.dumps({"id": f"m{i}", "n": i})) for i in range(records)])
        here.drain()

    here.drain()
    assert send(is_killed=True) == []
    assert send() == [{"first": 0, "last": 149}]
    more(30)
    assert here.relay() == 30, "the command sends, and tells Airflow nothing"
    more(20)
    assert send() == [{"first": 0, "last": 149}, {"first": 150, "last": 199}]
    with pytest.raises(AirflowSkipException, match="nothing waits to be sent"):
        send()


def test_what_a_relay_sends_once_more_by_a_decision_is_told_once_more(sends):
    here, send = sends
    here.drain()
    send()
    pipeline = here.folder.pipeline
    restart(here.at, pipeline, pipeline.first, "host/1/1", 100, Person("ada", "a new consumer"))
    assert send() == [{"first": 0, "last": 149}, {"first": 100, "last": 149}]
    with pytest.raises(AirflowSkipException, match="nothing waits to be sent"):
        send()


def test_each_of_several_topics_has_a_task_of_its_own():
    fed = [Upsert(f"public.{name}", key=("id",), feed=Feed(to=Topic(f"{name}.v1"))) for name in ("clicks", "again")]
    for dag in dags_for(pipeline_into(tuple(fed))):
        task = dag.get_task("relay")
        assert (task.is_mapped, task.upstream_task_ids) == (True, {"announce"})
        (known,) = (
            t["__var"] for t in DagSerialization.to_dict(dag)["dag"]["tasks"] if t["__var"]["task_id"] == "relay"
        )
        given = task.partial_kwargs
        assert [asset.name for asset in given["outlets"]] == ["kafka://clicks.v1", "kafka://again.v1"]
        assert given["inlets"] == given["outlets"]
        assert (known["_is_mapped"], given["trigger_rule"]) == (True, "none_failed")


def test_a_relay_that_needs_a_decision_fails_at_once_with_the_next_command(sends):
    here, send = sends
    here.drain()
    send()
    recreate(here.drill.kafka, here.sink, 2)
    with pytest.raises(
        AirflowFailException, match=r"was deleted and made anew.*Next: lockstep relay drill --target .*"
    ):
        send()
    assert here.drill.ask("select count(*) from lockstep.batch where state = 'committed'") == [(1,)]
