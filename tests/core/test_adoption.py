"""Tests a beginning where another reader stands: what its files say, and where each partition begins."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lockstep.adapters.kafka.checkpoints import standing_of_checkpoint
from lockstep.core.changes.adoption import adoption_of
from lockstep.core.changes.readers import (
    AT_OFFSETS,
    IN_DEFINITION,
    Reader,
    Standing,
    group_of_connector,
    offsets_text,
    parse_offsets,
)
from lockstep.core.errors import Refusal
from lockstep.core.offsets import Bounds, TopicPartition, TopicView, TopicViews
from lockstep.core.pipeline.names import Topics
from support.oracles.next_commands import faults_of

VIEW = TopicView("c", "orders.v1", "t", {0: Bounds(0, 100), 1: Bounds(40, 60)})
LOADER = Reader("group", "loader", "--group loader", "the consumer group loader", "loader")
SINK = {"name": "sink", "connector.class": "JdbcSink", "topics": "orders.v1"}


def at(offsets, topic="orders.v1"):
    """Returns offsets by partition as those of a topic."""
    return {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}


def adoption(offsets, given=(), view=VIEW, reader=LOADER):
    return adoption_of("orders", Standing(reader, at(offsets)), at(dict(given)), view)


def refused(act, *arguments: Any) -> str:
    """Returns the line of a refusal. Its next command can be typed."""
    with pytest.raises(Refusal) as raised:
        act(*arguments)
    assert "\n" not in str(raised.value)
    assert faults_of(raised.value.next_command) == []
    return str(raised.value)


def test_each_partition_begins_where_the_reader_stands():
    found = adoption({0: 7, 1: 60})
    assert found.starts == {"orders.v1": {0: 7, 1: 60}}
    assert [(each.first, each.lost) for each in found.places] == [(7, None), (60, None)]
    assert found.document()["from"][0] == {
        "topic": "orders.v1",
        "partition": 0,
        "stands": 7,
        "log_start": 0,
        "log_end": 100,
        "first": 7,
        "waiting": 93,
        "lost": 0,
    }
    assert found.next_command() == f"lockstep adopt orders --group loader --apply {found.digest} --reason ..."


def test_deleted_offsets_are_lost_and_must_be_accepted_by_their_partition():
    found = adoption({0: 7, 1: 30})
    assert (found.starts, [str(each) for each in found.lost]) == (
        {"orders.v1": {0: 7, 1: 30}},
        ["orders.v1-1 [30, 40)"],
    )
    assert found.places[1].first == 40
    found.require_accepted(at({1: 0}))
    line = refused(found.require_accepted, [])
    assert line.startswith("orders.v1-1 [30, 40) was deleted from the log and not read before: it is lost")
    assert line.endswith(f"--group loader --apply {found.digest} --accept-loss 1 --reason ...")
    assert "nothing of partition 0 is lost" in refused(found.require_accepted, at({0: 0, 1: 0}))


def test_the_digest_is_of_where_it_begins_and_of_what_is_lost_not_of_the_logs_end():
    found = adoption({0: 7, 1: 50})
    grown = replace(VIEW, bounds={0: Bounds(0, 900), 1: Bounds(50, 700)})
    assert adoption({0: 7, 1: 50}, view=grown).digest == found.digest
    trimmed = replace(VIEW, bounds={0: Bounds(0, 900), 1: Bounds(51, 700)})
    others = [
        adoption({0: 8, 1: 50}),
        adoption({0: 7, 1: 50}, view=trimmed),
        adoption({0: 7, 1: 50}, view=replace(VIEW, topic_id="anew")),
        adoption({0: 7, 1: 50}, view=replace(VIEW, cluster_id="other")),
        adoption({0: 7, 1: 50}, reader=replace(LOADER, batch=3)),
        adoption_of("clicks", Standing(LOADER, at({0: 7, 1: 50})), {}, VIEW),
    ]
    assert len({found.digest, *(each.digest for each in others)}) == 7


def test_given_offsets_are_for_partitions_that_the_reader_has_none_in():
    found = adoption({0: 7}, {1: 40})
    assert found.starts == {"orders.v1": {0: 7, 1: 40}}
    assert found.next_command().startswith("lockstep adopt orders --group loader --at 1:40 --apply ")
    line = refused(adoption, {0: 7})
    assert line.startswith("orders.v1-1: the consumer group loader has no offset there, and the log holds [40, 60)")
    assert line.endswith("  Next: lockstep adopt orders --group loader --at 1:40")
    line = refused(adoption, {0: 7}, {0: 9, 1: 40})
    assert "orders.v1-0: the consumer group loader stands at 7, and --at says 9" in line
    assert line.endswith("  Next: lockstep adopt orders --group loader --at 1:40")
    line = refused(adoption_of, "orders", AT_OFFSETS, at({0: 7}), VIEW)
    assert line.endswith(
        "orders.v1-1: --at has no offset there, and the log holds [40, 60)  Next: lockstep adopt orders --at 0:7,1:40"
    )
    assert "start says 101, past the log's end 100" in refused(
        adoption_of, "orders", IN_DEFINITION, at({0: 101, 1: 40}), VIEW
    )


def test_several_topics_begin_together_and_their_partitions_are_named_with_them():
    both = TopicViews("c", (TopicView("c", "eu", "t", {0: Bounds(0, 9)}), TopicView("c", "us", "u", {0: Bounds(4, 9)})))
    eu, us = TopicPartition("eu", 0), TopicPartition("us", 0)
    found = adoption_of("orders", Standing(LOADER, {eu: 5}), {us: 2}, both)
    assert (found.starts, [str(each) for each in found.lost]) == ({"eu": {0: 5}, "us": {0: 2}}, ["us-0 [2, 4)"])
    call = f"lockstep adopt orders --group loader --at us-0:2 --apply {found.digest} --accept-loss us-0 --reason ..."
    assert found.next_command() == call
    assert "nothing of partition eu-0 is lost" in refused(found.require_accepted, [eu, us])
    line = refused(adoption_of, "orders", Standing(LOADER, {eu: 5}), {}, both)
    assert line.endswith("  Next: lockstep adopt orders --group loader --at us-0:4")
    log = Bounds(0, 9)
    wide, wider = (
        TopicViews(
            "c",
            (TopicView("c", "eu", "t", dict.fromkeys(one, log)), TopicView("c", "us", "u", dict.fromkeys(two, log))),
        )
        for one, two in (((0, 1), (0,)), ((0,), (0, 1)))
    )
    alike = [
        adoption_of("orders", Standing(LOADER, dict.fromkeys(view.partitions, 5)), {}, view) for view in (wide, wider)
    ]
    assert alike[0].digest != alike[1].digest, "three partitions at offset 5 of two logs, and not the same three"
    swapped = adoption_of("orders", Standing(LOADER, {eu: 2}), {us: 5}, both)
    assert len({each.digest for each in (found, swapped, adoption({0: 5, 1: 50}))}) == 3


def test_offsets_outside_of_the_log_are_refused():
    assert "orders.v1-0: the consumer group loader stands at 101, past the log's end 100" in refused(
        adoption, {0: 101, 1: 50}
    )
    line = refused(adoption, {0: 7, 1: 50, 5: 3})
    assert (
        "orders.v1 has no partition 5, and the consumer group loader stands at 3 there: its partitions are 0, 1" in line
    )


@pytest.mark.parametrize("text", ["", "0", "0:", "0:-1", "a:1", "0:1,", "0:1;1:2", "0:²", "2147483648:1", f"0:{2**63}"])
def test_any_other_text_is_no_offsets(text):
    with pytest.raises(ValueError, match="is not PARTITION:OFFSET, such as 0:1200"):
        parse_offsets(text)


def test_offsets_are_parsed_as_they_are_written_and_a_partition_is_named_once():
    assert parse_offsets("0:123, 1:456, a-b-0:7") == {("", 0): 123, ("", 1): 456, ("a-b", 0): 7}
    assert offsets_text(at({1: 456, 0: 123}), named=False) == "0:123,1:456"
    assert offsets_text(at({1: 456, 0: 123}), named=True) == "orders.v1-0:123,orders.v1-1:456"
    with pytest.raises(ValueError, match="partition a-0 is named twice, with 1 and 2"):
        parse_offsets("a-0:1,a-0:2")
    with pytest.raises(ValueError, match="partition 0 is named twice, with 1 and 2"):
        parse_offsets("0:1,0:2")


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (SINK, ("sink", "connect-sink")),
        ({"name": "sink", "config": {"topics": " orders.v1 ", "tasks.max": 1}}, ("sink", "connect-sink")),
        ({"name": "sink", "config": {**SINK, "name": "other"}, "tasks": []}, ("other", "connect-other")),
        (SINK | {"consumer.override.group.id": "own"}, ("sink", "own")),
    ],
    ids=["flat", "with config", "as connect gives it", "own group"],
)
def test_a_sinks_group_is_called_by_its_name_or_as_it_says(document, found):
    assert group_of_connector(json.dumps(document), "sink.json", "orders", "orders.v1") == found


def test_a_sink_of_several_topics_is_one_of_a_pipeline_that_reads_them_all():
    both, like = json.dumps(SINK | {"topics": "eu,us"}), json.dumps(SINK | {"topics.regex": "e.*"})
    for text, source in ((both, ("us", "eu", "uk")), (both, Topics("[eu].*")), (like, Topics("e.*"))):
        assert group_of_connector(text, "sink.json", "orders", source) == ("sink", "connect-sink")
    assert "it reads us too, and orders reads eu, uk alone" in refused(
        group_of_connector, both, "sink.json", "orders", ("eu", "uk")
    )
    assert "match 'e.*', and orders reads topics like e.+" in refused(
        group_of_connector, like, "sink.json", "orders", Topics("e.+")
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "sink.json: it is no JSON document"),
        ("[" * 100_000, "it is no JSON document"),
        ("[]", "it is no connector's configuration"),
        ('{"config": 1}', "it is no connector's configuration"),
        ('{"topics": "orders.v1"}', "it has no name"),
        (
            json.dumps(SINK | {"name": "${env:NAME}"}),
            "its consumer group is 'connect-${env:NAME}', which Connect fills in",
        ),
        (json.dumps(SINK | {"topics": ""}), "it names no topics, so it is no sink"),
        (json.dumps(SINK | {"topics": "clicks"}), "it reads clicks, and orders reads orders.v1"),
        (
            json.dumps(SINK | {"topics": "clicks, orders.v1"}),
            "it reads clicks too, and orders reads orders.v1 alone: take over these",
        ),
        (json.dumps(SINK | {"topics.regex": "o.*"}), "it reads the topics that match 'o.*'"),
    ],
)
def test_another_document_is_no_sink_of_this_topic(text, words):
    assert words in refused(group_of_connector, text, "sink.json", "orders", "orders.v1")


def ends(offsets, version="v1", metadata="{}") -> str:
    return "\n".join([version, metadata, offsets if isinstance(offsets, str) else json.dumps(offsets)])


@pytest.fixture
def checkpoint(tmp_path):
    """Returns `checkpoint(commits, more)`, which writes such a folder: two batches, both committed."""

    def write(commits=(0, 1), more=()):
        known = {"0": ends({"orders.v1": {"0": 5, "1": 40}}), "1": ends({"orders.v1": {"0": 10, "1": 50}})} | dict(more)
        for folder, files in (("offsets", known), ("commits", {str(n): "v1\n{}" for n in commits})):
            (tmp_path / folder).mkdir()
            for name, text in files.items():
                (tmp_path / folder / name).write_text(text)
                (tmp_path / folder / f".{name}.crc").write_bytes(b"\x00")
        return tmp_path

    return write


def test_a_query_stands_at_the_end_of_its_last_committed_batch(checkpoint):
    folder = checkpoint()
    (folder / "offsets" / ".2.1b3c.tmp").write_text("half")
    found = standing_of_checkpoint(folder, "orders", "orders.v1")
    assert (found.reader.batch, found.offsets) == (1, at({0: 10, 1: 50}))
    (folder / "offsets" / "1").write_text(ends({"eu": {"0": 5}, "us": {"0": 7}}))
    both = standing_of_checkpoint(folder, "orders", ("eu", "us")).offsets
    assert both == at({0: 5}, "eu") | at({0: 7}, "us")


def test_a_tenth_batch_is_behind_a_ninth(checkpoint):
    more = {n: ends({"orders.v1": {"0": 10 + int(n)}}) for n in map(str, range(2, 12))}
    assert standing_of_checkpoint(checkpoint(range(12), more), "orders", "orders.v1").offsets == at({0: 21})


def test_a_batch_that_is_planned_and_not_committed_is_refused_by_its_offsets(checkpoint):
    folder = checkpoint(more={"2": ends({"orders.v1": {"0": 30, "1": 50, "2": 4}})})
    line = refused(standing_of_checkpoint, folder, "orders", "orders.v1")
    assert (
        "has planned batch 2 and not committed it, so rows of orders.v1-0 [10, 30), orders.v1-2 [0, 4) may be" in line
    )
    assert line.endswith("let the query end it, or if none is there: lockstep adopt orders --at 0:10,1:50")


@pytest.mark.parametrize(
    ("last", "words"),
    [
        ("", "offsets/1: its format is '', and v1 is known"),
        (ends({}, "v2"), "its format is 'v2', and v1 is known"),
        ("v1", "it is broken, or its query has read nothing"),
        (ends("-"), "it is broken, or its query has read nothing"),
        (ends('{"orders.v1"'), "it is broken: a line of it is no JSON"),
        (ends('{"orders.v1": {"0": 5}}\n{"logOffset": 3}'), "its query reads 2 sources"),
        (ends({"logOffset": 3}), "its query does not read Kafka"),
        (ends("3"), "its query does not read Kafka"),
        (ends({"clicks": {"0": 5}}), "it reads clicks, and orders reads orders.v1"),
        (
            ends({"clicks": {"0": 5}, "orders.v1": {"0": 5}}),
            "it reads clicks too, and orders reads orders.v1 alone",
        ),
        (ends({"orders.v1": {"0": -2}}), "its partitions and offsets are no numbers"),
        (ends({"orders.v1": {"x": 2}}), "its partitions and offsets are no numbers"),
        (ends({"orders.v1": {"0": True}}), "its partitions and offsets are no numbers"),
    ],
)
def test_a_broken_or_another_offsets_file_is_refused(checkpoint, last, words):
    assert words in refused(standing_of_checkpoint, checkpoint(more={"1": last}), "orders", "orders.v1")


def test_a_folder_that_is_no_whole_checkpoint_is_refused(checkpoint, tmp_path):
    assert "nowhere/offsets: a checkpoint's folder has offsets/ and commits/" in refused(
        standing_of_checkpoint, tmp_path / "nowhere", "orders", "orders.v1"
    )
    folder = checkpoint(commits=(0, 1, 2))
    assert "it is broken: batch 2 is committed, and its offsets are missing" in refused(
        standing_of_checkpoint, folder, "orders", "orders.v1"
    )
    for file in (folder / "commits").iterdir():
        file.unlink()
    assert "its query has planned batch 1 and committed none" in refused(
        standing_of_checkpoint, folder, "orders", "orders.v1"
    )
    for file in (folder / "offsets").iterdir():
        file.unlink()
    assert "it holds no batch of Structured Streaming" in refused(standing_of_checkpoint, folder, "orders", "orders.v1")
