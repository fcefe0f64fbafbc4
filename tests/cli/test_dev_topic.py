"""Tests that `lockstep dev topic` makes a topic once, and refuses an invalid one."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from lockstep.dev.records import topics
from support.scenes.command_line import assert_away, assert_refused, assert_wrong_call

DEFINITION = """
from lockstep.core.pipeline.definition import Append, Json, Pipeline
P = Pipeline(name="refunds", topic="{topic}", format=Json("id string"), target=Append("public.refunds"))
"""


@pytest.fixture
def name(request, worker_id):
    return f"made-{worker_id}-{abs(hash(request.node.nodeid))}"


@pytest.fixture
def on_broker(lockstep, kafka):
    """Returns `on_broker(topic)`: how many partitions of it the broker has, or None."""
    lockstep.environ(LOCKSTEP_KAFKA=kafka)

    def count(topic: str) -> int | None:
        known = AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=10).topics
        return len(known[topic].partitions) if topic in known else None

    return count


def test_a_topic_is_made_once_and_is_there_from_then_on(lockstep, on_broker, kafka, name):
    lockstep.define()
    assert on_broker(name) is None
    said = lockstep("dev", "topic", name, "--partitions", "3", "--json")
    expected = {"topic": name, "pipeline": None, "partitions": 3, "created": True, "kafka": kafka}
    assert (said.code, said.document, on_broker(name)) == (0, expected, 3)

    for options in (["--partitions", "3"], []):
        again = lockstep("dev", "topic", name, *options)
        assert (again.code, again.err) == (0, "")
        assert again.out == f"topic {name}: is there, 3 partitions; no pipeline reads it\n"
    assert lockstep("dev", "topic", name, "--json").document == expected | {"created": False}


def test_without_a_number_it_has_four_partitions(lockstep, on_broker, name):
    assert lockstep("dev", "topic", name).out.startswith(f"topic {name}: made, 4 partitions")
    assert on_broker(name) == 4


def test_a_pipelines_name_means_its_topic(lockstep, on_broker, name):
    lockstep.define("refunds", init=DEFINITION.format(topic=name))
    said = lockstep("dev", "topic", "refunds", "--partitions", "1")
    assert (said.code, said.out) == (0, f"topic {name}: made, 1 partition\n")
    assert (on_broker(name), on_broker("refunds")) == (1, None)
    assert lockstep("dev", "topic", name).out == f"topic {name}: is there, 1 partition\n"
    assert lockstep("dev", "topic", "refunds", "--json").document["pipeline"] == "refunds"


def test_another_number_of_partitions_is_refused_and_nothing_changes(lockstep, on_broker, topic):
    name = topic(partitions=2)
    assert_refused(
        lockstep("dev", "topic", name, "--partitions", "3"),
        f"topic {name} has 2 partitions, not 3",
        f"Next: lockstep dev topic {name} --partitions 2",
    )
    assert on_broker(name) == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a b", "'a b' is neither a pipeline nor a legal topic name"),
        ("orders/v1", "'orders/v1' is neither a pipeline nor a legal topic name"),
        ("..", "'..' is neither a pipeline nor a legal topic name"),
        ("", "'' is neither a pipeline nor a legal topic name"),
        ("x" * 250, "is neither a pipeline nor a legal topic name"),
        ("orders\n", "'orders\\n' is neither a pipeline nor a legal topic name"),
        ("__consumer_offsets", "names that begin with __ are Kafka's own"),
    ],
    ids=lambda case: case[:20] or "nothing",
)
def test_what_can_be_no_topic_is_refused_before_the_broker_is_asked(lockstep, name, words):
    lockstep.environ(LOCKSTEP_KAFKA="127.0.0.1:1")
    assert_refused(lockstep("dev", "topic", name), words, "Next: lockstep dev topic ")


def test_a_topic_that_the_broker_refuses_is_not_told_as_a_broker_that_is_away(lockstep, on_broker, name):
    lockstep("dev", "topic", f"{name}.a_b", "--partitions", "1")
    said = lockstep("dev", "topic", f"{name}.a.b", "--partitions", "1")
    assert_refused(said, f"refuses topic {name}.a.b", "collides")
    assert on_broker(f"{name}.a.b") is None


def test_a_broken_definition_is_refused_as_such(lockstep, on_broker):
    lockstep.define("refunds", init="nonsense\n")
    assert_refused(lockstep("dev", "topic", "refunds"), "include/pipelines/refunds/__init__.py:1", "NameError")
    assert on_broker("refunds") is None


def test_a_broker_that_is_away_and_a_missing_stack_are_refused(lockstep, monkeypatch):
    monkeypatch.setattr(topics, "PATIENCE_SECONDS", 0.5)
    assert_refused(lockstep("dev", "topic", "orders.v1"), "LOCKSTEP_KAFKA is not set", "Next: lockstep dev up")
    lockstep.environ(LOCKSTEP_KAFKA="127.0.0.1:1")
    assert_away(lockstep("dev", "topic", "orders.v1"), "Kafka at 127.0.0.1:1 does not answer")


@pytest.mark.parametrize("number", ["0", "-1", "1001", "many", "1.5"])
def test_a_number_of_partitions_that_no_topic_can_have_is_a_wrong_call(lockstep, number):
    assert_wrong_call(lockstep("dev", "topic", "t", "--partitions", number), "'--partitions'")
