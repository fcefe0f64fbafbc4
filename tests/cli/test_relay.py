"""Tests `relay`: a feed reaches its topic, made by `migrate`, and a person says where it begins anew."""

from __future__ import annotations

import json

import pytest

from feed.sending import read_topic
from support.scenes.command_line import DEFINITION, assert_refused
from support.servers.servers import make_topic

SENT = DEFINITION.replace("Json, Pipeline", "Feed, Json, Pipeline, Topic").replace(
    'key=("id",))', 'key=("id",), feed=Feed(to=Topic("SINK", partitions=2)))'
)


@pytest.fixture
def sink(topic):
    """Returns the name of a topic that is not there yet."""
    return f"{topic(partitions=1)}-sink"


@pytest.fixture
def sent(lockstep, database, kafka, admin, sink):
    """Makes a pipeline whose table's three changes go to a topic."""
    lockstep.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA=kafka)
    lockstep.define(init=SENT.replace("SINK", sink))
    assert f"the topic {sink} is made" in lockstep("migrate", "orders").out
    assert "is made" not in lockstep("migrate", "orders").out
    for statement in (
        "insert into public.orders values ('a', 1, 1, 0, 0, 0), ('b', 1, 1, 1, 0, 0)",
        "delete from public.orders where id = 'b'",
    ):
        admin(f"begin; select lockstep.manual_change('public.orders', 'by hand'); {statement}; commit")
    return lockstep


def test_what_was_changed_is_sent_once(sent, kafka, sink):
    document = sent("relay", "orders", "--json").document
    assert document == {
        "pipeline": "orders", "target": "public.orders", "topic": sink, "decision": "sent", "sent": 3,
        "transactions": 1, "next_number": 3, "behind": 0, "reason": None, "next": None,
    }  # fmt: skip
    records = [record for part in read_topic(kafka, sink).values() for record in part]
    assert sorted((key, value and json.loads(value)) for key, value, _ in records if key == b"a") == [
        (b"a", {"id": "a", "n": 1})
    ]
    assert [value is None for key, value, _ in records if key == b"b"] == [False, True]
    said = sent("relay", "orders", "--until-idle", "--wait", "0")
    assert (said.code, said.err, said.out) == (0, "", f"public.orders: 0 changes sent to {sink}\n")
    assert sent("relay", "orders", "--json").document["decision"] == "idle"


def test_a_relay_that_needs_a_decision_names_it_and_goes_on_behind_it(sent, kafka, sink):
    assert sent("relay", "orders").code == 0
    sent.define(init=SENT.replace("SINK", f"{sink}-2"))
    make_topic(kafka, f"{sink}-2", 1)

    blocked = sent("relay", "orders", "--json")

    assert (blocked.code, blocked.document["decision"]) == (5, "blocked")
    assert "--restart-at NUMBER" in blocked.document["next"]
    assert_refused(
        sent("relay", "orders"),
        f"public.orders: the definition names the topic {sink}-2, and {sink} was written",
        "lockstep relay orders --target public.orders --restart-at NUMBER --reason WHY",
        code=5,
    )
    assert_refused(
        sent("relay", "orders", "--restart-at", "4", "--reason", "x"),
        "orders: public.orders has the changes [0, 3), 4 is asked for",
        "lockstep changes orders --target public.orders",
    )
    again = sent("relay", "orders", "--restart-at", "0", "--reason", "another topic", "--json").document
    assert (again["restarted_at"], again["behind"], again["topic"]) == (0, 3, f"{sink}-2")
    assert sent("relay", "orders", "--json").document["sent"] == 3


def test_a_topic_that_is_not_there_is_one_line(sent, sink):
    sent.define(init=SENT.replace(", partitions=2", "").replace("SINK", f"{sink}-3"))
    assert_refused(sent("relay", "orders"), f"topic {sink}-3 is not on the broker at")
