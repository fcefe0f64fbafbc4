"""Tests the topics of a pipeline as values: which are read, what a plan decides about each, and what is refused."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep import Append, Envelope, Feed, Idempotent, Json, Limits, Pipeline, Postgres, Topic, Topics, Upsert
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.offsets import Bounds, OffsetRange, Stream, StreamRange, TopicPartition, TopicView, TopicViews
from lockstep.core.pipeline.names import has_appeared, reads_topic, source_of, topic_tags, topic_words
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.core.planning.blocked import changed_definition, topic_refused
from lockstep.core.planning.decisions import Blocked, Caller, Idle, Resume, Situation, Start, Unfinished
from lockstep.core.planning.lanes import Piece, next_pieces
from lockstep.core.planning.live import decide

PAIR = ("eu", "us")
LIKE = Topics(r"shop\.public\..*", new="refuse", limit=7)
ONE = Pipeline("orders", "eu", Json("id string, n int"), Append("public.orders"))
BOTH = replace(ONE, topic=PAIR)
ME = Caller("me")


def stream(topic: str, position: int = 0, partition: int = 0) -> Stream:
    number = 10 * (topic != "eu") + partition + 1
    return Stream(number, TopicPartition(topic, partition), "c", f"id of {topic}", 0, 0, 0, position)


def views(**ends: int) -> TopicViews:
    return TopicViews("c", tuple(TopicView("c", t, f"id of {t}", {0: Bounds(0, end)}) for t, end in ends.items()))


def situation(view: TopicViews, *streams: Stream, **more: Any) -> Situation:
    return Situation(view, streams, **more)


def test_a_pattern_matches_whole_names_and_no_topic_of_the_broker():
    assert [LIKE.matches(name) for name in ("shop.public.a", "shop.public.", "xshop.public.a", "shop.publicxa")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert not Topics(".*").matches("__consumer_offsets")
    assert Topics(".*").matches("_schemas")


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        (Topics, "not a kind that Lockstep knows"),
        (["eu", "us"], "not a kind that Lockstep knows"),
        ((), "must name each topic once"),
        (("eu", "eu"), "must name each topic once"),
        (("eu", "no way"), "topic 'no way' is no legal topic name"),
        (("eu", 7), "topic 7 is no legal topic name"),
    ],
)
def test_topics_that_cannot_be_are_refused(topic, words):
    with pytest.raises(BadDefinition, match=words):
        replace(ONE, topic=topic)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"pattern": "("}, "is no regular expression"),
        ({"pattern": None}, "is no regular expression"),
        ({"pattern": "a", "new": "latest"}, "topic.new is 'latest': it must be earliest or refuse"),
        ({"pattern": "a", "limit": 0}, "topic.limit is 0"),
        ({"pattern": "a", "limit": True}, "topic.limit is True"),
        ({"pattern": "a", "limit": 10_001}, "topic.limit is 10001"),
    ],
)
def test_a_pattern_that_cannot_be_is_refused(how, words):
    with pytest.raises(BadDefinition, match=words):
        Topics(**how)


def test_what_means_one_topic_is_refused_for_several():
    with pytest.raises(BadDefinition, match="offsets by partition are those of one topic"):
        replace(BOTH, start={0: 5})
    with pytest.raises(BadDefinition, match="us is the topic that the pipeline reads"):
        replace(BOTH, target=Append("public.orders", feed=Feed(to=Topic("us"))))
    keyed = replace(BOTH, target=Upsert("public.orders", key=("id",)), guarantee=Idempotent())
    with pytest.raises(
        BadDefinition, match=r"target.order_by of public.orders: another store cannot tell topics apart"
    ):
        replace(keyed, store=Postgres("WAREHOUSE"))
    with pytest.raises(Refusal, match="orders: it reads eu, us, and this takes a pipeline of one topic"):
        _ = BOTH.only_topic
    with pytest.raises(Refusal, match=r"and a partition is one of a topic  Next: name it: --topic"):
        BOTH.one_topic(None)
    assert (BOTH.one_topic("us"), ONE.one_topic(None), BOTH.topic_option("us"), ONE.topic_option("eu")) == (
        "us", "eu", " --topic us", "",
    )  # fmt: skip


def test_a_definition_of_one_topic_keeps_its_document_and_hash():
    keyed = Pipeline(
        "orders",
        "orders.v1",
        Json("id string, n int", key="id"),
        Upsert("public.orders", key=("id",)),
        envelope=Envelope(timestamp="at", partition="p"),
    )
    digest = hashlib.sha256(json.dumps(keyed.document(), sort_keys=True).encode()).hexdigest()
    assert digest == "4d4cdea85e914fe075546b32b4660efc18c414545215f795800df6e1ed1de13c"
    assert keyed.document()["topic"] == "orders.v1"


@pytest.mark.parametrize("topic", ["eu", PAIR, ("eu",), LIKE], ids=["one", "two", "a tuple of one", "a pattern"])
def test_a_recorded_definition_is_read_back_as_it_was(topic):
    pipeline = replace(ONE, topic=topic, envelope=Envelope(topic="came_from"))
    document = json.loads(json.dumps(pipeline.document()))
    assert pipeline_of_document(document) == pipeline
    assert source_of(document["topic"]) == topic
    assert document["envelope"]["topic"] == "came_from"
    assert [column.name for column in pipeline.columns] == ["id", "n", "came_from"]


def test_topics_are_told_in_words():
    assert [topic_words(each) for each in ("eu", PAIR, LIKE)] == ["eu", "eu, us", r"topics like shop\.public\..*"]
    assert [topic_tags(each) for each in ("eu", PAIR, LIKE)] == [("eu",), PAIR, ()]
    assert [reads_topic(each, "us") for each in ("eu", PAIR, LIKE)] == [False, True, False]


def test_topics_may_be_added_and_one_topic_alone_is_kept_for_good():
    for was, now in ((ONE, BOTH), (BOTH, ONE), (BOTH, replace(ONE, topic=LIKE))):
        assert changed_definition(now, [json.loads(json.dumps(was.document()))]) is None
    other = changed_definition(replace(ONE, topic="asia"), [ONE.document()])
    assert other
    assert other.reason.startswith("orders: its topic was eu and is now asia; a pipeline keeps its topic for good")


def test_a_topic_has_appeared_if_the_definitions_read_it_before():
    assert has_appeared("us", [])
    assert has_appeared("us", [BOTH.document()])
    assert not has_appeared("us", [BOTH.document(), ONE.document()])


def test_a_topic_that_has_appeared_is_refused_by_name():
    refusing = replace(ONE, topic=LIKE)
    blocked = topic_refused(refusing, ["shop.public.new"])
    assert blocked == Blocked(
        "orders: topic shop.public.new has appeared and matches 'shop\\\\.public\\\\..*', and topic.new is 'refuse'",
        "say new='earliest' or leave it out of the pattern, then lockstep plan orders",
        readings=2,
    )
    for pipeline, topics in ((refusing, []), (replace(ONE, topic=replace(LIKE, new="earliest")), ["x"]), (BOTH, ["x"])):
        assert topic_refused(pipeline, topics) is None


def test_limits_are_shared_over_the_topics_by_what_waits():
    found = decide(
        replace(BOTH, limits=Limits(records=10)), situation(views(eu=100, us=3), stream("eu"), stream("us")), ME
    )
    assert isinstance(found, Start)
    assert [str(item.offsets) for item in found.ranges] == ["eu-0 [0, 7)", "us-0 [0, 3)"]


def test_a_topic_that_is_gone_stops_itself_alone():
    streams = (stream("eu", 5), stream("us", 9))
    ahead = decide(BOTH, situation(views(eu=8), *streams), ME)
    assert isinstance(ahead, Start)
    assert [str(item.offsets) for item in ahead.ranges] == ["eu-0 [5, 8)"]

    caught_up = decide(BOTH, situation(views(eu=5), *streams), ME)
    assert caught_up == Blocked(
        "us-0: topic us is gone; the position is 9. Its other topics go on",
        "lockstep retire orders --topic us --reason ...",
        readings=2,
    )
    assert isinstance(decide(BOTH, situation(views(eu=5), stream("eu", 5)), ME), Idle)


def test_a_topic_that_the_definition_does_not_name_stops_them_all():
    blocked = decide(replace(ONE, topic=("eu",)), situation(views(eu=8), stream("eu", 5), stream("us", 9)), ME)
    assert blocked == Blocked(
        "us-0: the definition does not name topic us any more, it says eu; the position is 9",
        "put it back, or lockstep retire orders --topic us --reason ...",
    )


def test_an_unfinished_batch_is_held_against_the_log_of_each_topic():
    ranges = tuple(StreamRange(n, OffsetRange(TopicPartition(t, 0), 0, 5)) for n, t in ((1, "eu"), (11, "us")))
    logs = tuple(("c", topic, f"id of {topic}") for topic in PAIR)
    held = Unfinished(7, "me", False, datetime(2026, 1, 1, tzinfo=UTC), False, ranges, logs)  # noqa: FBT003

    def decided(view: TopicViews) -> Any:
        return decide(BOTH, situation(view, stream("eu"), stream("us"), unfinished=held), ME)

    assert decided(views(eu=5, us=5)) == Resume(7)
    gone, short = decided(views(eu=5)), decided(views(eu=5, us=4))
    assert gone.reason == "us-0 [0, 5): batch 7 was planned on topic id id of us, and the topic id is now gone"
    assert gone.next_command == "lockstep retire orders --topic us --reason ..."
    assert short.reason == "us-0 [0, 5): batch 7 cannot be read: the log ends at 4"
    assert short.next_command == "lockstep retire orders --topic us --partition 0 --reason ..."


def test_a_request_takes_the_same_partition_of_each_topic():
    pieces = [Piece(StreamRange(n, OffsetRange(TopicPartition(t, 0), 0, 5)), None) for n, t in ((1, "eu"), (11, "us"))]
    assert len(next_pieces(Limits(records=100), situation(views()).pace, pieces, whole_batches=False)) == 2


@pytest.mark.parametrize(
    ("page", "heading", "read", "column"),
    [
        ("cookbook.md", "## Read several topics", "orders.asia", "came_from"),
        ("several-topics.md", "# Several topics", "orders.us", "came_from"),
    ],
)
def test_the_examples_of_the_pages_are_pipelines_that_read_these_topics(page, heading, read, column):
    text = (Path(__file__).parents[2] / "docs" / page).read_text()
    example = re.search(r"```python\n(.*?)```", text[text.index(heading) :], re.DOTALL)
    assert example
    pipeline = eval(example[1], vars(lockstep) | {name: getattr(lockstep, name) for name in lockstep.__all__})  # noqa: S307 - our page
    assert reads_topic(pipeline.topic, read)
    assert not reads_topic(pipeline.topic, "orders.archive")
    assert column in [each.name for each in pipeline.columns]
    assert pipeline_of_document(json.loads(json.dumps(pipeline.document()))) == pipeline
