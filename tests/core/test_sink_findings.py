"""Tests what is said of a topic that a feed is sent to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep.core.feed.sink_findings import sink_findings
from lockstep.core.health.broker_findings import TopicFacts
from lockstep.core.pipeline.definition import Append, Feed, Json, Pipeline, Send, Topic, Upsert

SAFE = {
    "cleanup.policy": "delete",
    "min.insync.replicas": "2",
    "max.message.bytes": "1000",
    "offsets.retention.minutes": "10080",
}
SOURCE = TopicFacts("b:9092", "orders.v1", 3, 4, 3, SAFE)
SINK = replace(SOURCE, topic="clean.v1")
BY_KEY = Send(Topic("clean.v1"), key=("id",))
KEYED = Upsert("public.orders", key=("id",), feed=Feed(to=Topic("clean.v1")))
# what the topic or the target is, the check that speaks, how severe, and what it found
CASES = [
    (BY_KEY, {}, None),
    (Append("public.orders", feed=Feed(to=Topic("clean.v1"))), {}, None),
    (BY_KEY, {"cleanup.policy": "compact"}, None),
    (
        Send(Topic("clean.v1")),
        {"cleanup.policy": "compact"},
        ("cleanup.policy", "problem", "compact, and records without"),
    ),
    (KEYED, {}, ("cleanup.policy", "warning", "delete")),
    (KEYED, {"cleanup.policy": "compact,delete"}, None),
    (replace(KEYED, feed=Feed(to=Topic("clean.v1", shape="change"))), {}, None),
    (BY_KEY, {"min.insync.replicas": "1"}, ("min.insync.replicas", "problem", "1, of 3 copies")),
    (BY_KEY, {"max.message.bytes": "999"}, ("max.message.bytes", "warning", "999, and orders.v1 takes 1000")),
    (BY_KEY, {"unclean.leader.election.enable": "true"}, ("unclean.leader.election.enable", "problem", "true")),
    (BY_KEY, {"offsets.retention.minutes": "2880"}, ("offsets.retention.minutes", "warning", "2880 minutes, and")),
]


@pytest.mark.parametrize(("target", "settings", "told"), CASES)
def test_a_topic_of_a_feed_is_held_against_its_target(target, settings, told):
    pipeline = Pipeline("orders", "orders.v1", Json("id string"), target, schedule="@daily")
    found = [each for each in sink_findings(pipeline, target, replace(SINK, settings=SAFE | settings), SOURCE) if each]
    assert [(each.check, each.severity) for each in found] == ([told[:2]] if told else [])
    assert all(each.found.startswith(told[2]) for each in found)
    assert all(each.subject == "topic clean.v1" for each in found)


def test_without_the_right_to_read_settings_copies_are_still_counted():
    pipeline = Pipeline("orders", "orders.v1", Json("id string"), BY_KEY)
    (found,) = sink_findings(pipeline, BY_KEY, replace(SINK, settings=None, copies=1), SOURCE)
    assert (found.check, found.severity) == ("replication.factor", "problem")
