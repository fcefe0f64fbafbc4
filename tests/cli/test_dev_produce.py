"""Tests that `lockstep dev produce --from` puts all lines of a file on a topic, or none."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, TopicPartition

from lockstep.core.errors import Unreachable
from lockstep.dev.records import topics
from lockstep.dev.records.sending import MESSAGE_BYTES, send
from support.scenes.command_line import assert_away, assert_refused, assert_wrong_call

DEFINITION = """
from lockstep.core.pipeline.definition import Json, Pipeline, Upsert
P = Pipeline(
    name="refunds", topic="{topic}", format=Json("id string", key="id"), target=Upsert("public.refunds", key=("id",))
)
"""
SAMPLE = b'{"id": "a", "n": 1}\n{"id": "b", "n": 2}\n{"id": "a", "n": 3}\n'


@pytest.fixture
def on_topic(kafka):
    """Returns `on_topic(name, partitions)`: each partition's records, key and value."""

    def read(name: str, partitions: int) -> list[list[tuple[bytes | None, bytes | None]]]:
        reader = Consumer({"bootstrap.servers": kafka, "group.id": "looks", "enable.auto.commit": False})
        found = []
        for partition in range(partitions):
            end = reader.get_watermark_offsets(TopicPartition(name, partition), timeout=10)[1]
            reader.assign([TopicPartition(name, partition, 0)])
            got = [reader.poll(10) for _ in range(end)]
            found.append([(message.key(), message.value()) for message in got])
        reader.close()
        return found

    return read


@pytest.fixture
def sample(lockstep, kafka):
    """Returns `sample(content)`, which writes a file in the current folder."""
    lockstep.environ(LOCKSTEP_KAFKA=kafka)

    def write(content: bytes = SAMPLE) -> str:
        (lockstep.home / "sample.jsonl").write_bytes(content)
        return "sample.jsonl"

    return write


def test_each_line_is_a_record_and_its_column_the_key(lockstep, sample, topic, on_topic):
    name = topic(partitions=4)
    said = lockstep("dev", "produce", name, "--from", sample(), "--key", "id", "--json")
    assert (said.code, said.err) == (0, "")
    records = on_topic(name, 4)
    given = [(json.loads(line)["id"].encode(), line) for line in SAMPLE.splitlines()]
    assert sorted(record for part in records for record in part) == sorted(given)
    (of_a,) = [part for part in records if any(key == b"a" for key, _ in part)]
    assert [value for key, value in of_a if key == b"a"] == [given[0][1], given[2][1]]
    document = said.document
    assert document.pop("seconds") > 0
    counted = {str(number): len(part) for number, part in enumerate(records) if part}
    assert document == {"pipeline": None, "topic": name, "produced": 3, "partitions": counted}


def test_the_partitions_are_told_to_people_too(lockstep, sample, topic):
    name = topic(partitions=1)
    said = lockstep("dev", "produce", name, "--from", sample())
    first, *table = said.out.splitlines()
    assert first.startswith(f"3 records onto {name} in ")
    assert [line.split() for line in table] == [["partition", "records"], [f"{name}-0", "3"]]


def test_values_are_sent_byte_for_byte_and_more_than_once(lockstep, sample, topic, on_topic):
    name = topic(partitions=1)
    for _ in range(2):
        assert lockstep("dev", "produce", name, "--from", sample(b"\xff\x00 no text\r\n\n{}")).code == 0
    assert on_topic(name, 1) == [[(None, b"\xff\x00 no text\r"), (None, b""), (None, b"{}")] * 2]


def test_standard_input_is_taken_too(lockstep, sample, topic, on_topic, monkeypatch):
    sample()
    name = topic(partitions=1)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(SAMPLE)))
    assert lockstep("dev", "produce", name, "--from", "-", "--key", "n").code == 0
    assert [key for key, _ in on_topic(name, 1)[0]] == [b"1", b"2", b"3"]


def test_more_lines_than_one_chunk_arrive_each_once(lockstep, sample, topic, on_topic):
    name = topic(partitions=3)
    content = b"".join(b'{"id": %d}\n' % number for number in range(5_001))
    said = lockstep("dev", "produce", name, "--from", sample(content), "--key", "id", "--json")
    keys = sorted(int(key) for part in on_topic(name, 3) for key, _ in part)
    assert keys == list(range(5_001))
    assert sum(said.document["partitions"].values()) == said.document["produced"] == 5_001


def test_a_pipelines_name_means_its_topic_and_missing_keys_are_a_warning(lockstep, sample, topic, on_topic):
    name = topic(partitions=1)
    lockstep.define("refunds", init=DEFINITION.format(topic=name))
    said = lockstep("dev", "produce", "refunds", "--from", sample())
    assert said.code == 0
    assert said.err == (
        "warning: refunds expects id as the Kafka key, and these records were sent without keys.  "
        "Next: lockstep dev produce refunds --from FILE --key id\n"
    )
    said = lockstep("dev", "produce", "refunds", "--from", sample(), "--key", "id", "--json")
    assert (said.err, said.document["pipeline"], len(on_topic(name, 1)[0])) == ("", "refunds", 6)


def test_a_missing_topic_names_the_command_that_makes_it(lockstep, sample):
    lockstep.define("refunds", init=DEFINITION.format(topic="refunds.never"))
    assert_refused(
        lockstep("dev", "produce", "refunds", "--from", sample()),
        "topic refunds.never is not on the broker",
        "Next: lockstep dev topic refunds.never --partitions 4",
    )
    assert_refused(lockstep("dev", "produce", "never.made", "--from", sample()), "Next: lockstep dev topic never.made")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"id": 1}\nnonsense\n', "sample.jsonl:2: no JSON object"),
        (b'{"id": 1}\n{"n": 2}\n', "sample.jsonl:2: column 'id' is missing or null; there are: 'n'"),
        (b'{"id": {"a": 1}}\n', "sample.jsonl:1: column 'id' is an object"),
        (b"", "sample.jsonl: it holds no line"),
        (b'{"id": 1}\n' + b"x" * 1_000_001, "sample.jsonl:2: "),
    ],
    ids=["no json", "no key", "an object", "empty", "too long"],
)
def test_one_bad_line_is_refused_by_its_number_and_no_line_is_sent(lockstep, sample, topic, on_topic, content, words):
    name = topic(partitions=1)
    assert_refused(
        lockstep("dev", "produce", name, "--from", sample(content), "--key", "id"), words, "nothing was sent"
    )
    assert on_topic(name, 1) == [[]]


def test_the_longest_line_that_is_taken_arrives(lockstep, sample, topic, on_topic):
    name = topic(partitions=1)
    longest = b'{"id": "a", "more": "' + b"x" * (MESSAGE_BYTES - 24) + b'"}'
    assert len(longest) == MESSAGE_BYTES - 1  # and one byte of the key
    assert lockstep("dev", "produce", name, "--from", sample(longest), "--key", "id").code == 0
    assert on_topic(name, 1) == [[(b"a", longest)]]


def test_a_record_that_the_client_refuses_is_no_record_that_was_sent(topic, kafka, on_topic):
    name = topic(partitions=1)
    with pytest.raises(Unreachable, match=rf"did not take all records for {name}: .*too large.*; \d of them are there"):
        send(kafka, name, [(None, b"fits"), (None, b"x" * 3_000_000)], lambda _count: None, counted=True)
    assert {value for _, value in on_topic(name, 1)[0]} <= {b"fits"}


def test_a_file_that_is_not_there_is_refused(lockstep, sample, topic):
    sample()
    name = topic(partitions=1)
    assert_refused(
        lockstep("dev", "produce", name, "--from", "nowhere.jsonl"), "nowhere.jsonl: cannot be read: No such"
    )
    assert_refused(lockstep("dev", "produce", name, "--from", "."), ".: cannot be read: Is a directory")


def test_a_broker_that_is_away_and_what_can_be_no_topic_are_refused(lockstep, sample, monkeypatch):
    monkeypatch.setattr(topics, "PATIENCE_SECONDS", 0.5)
    sample()
    lockstep.environ(LOCKSTEP_KAFKA="127.0.0.1:1")
    assert_away(lockstep("dev", "produce", "t", "--from", "sample.jsonl"), "Kafka at 127.0.0.1:1 does not answer")
    assert_refused(lockstep("dev", "produce", "a b", "--from", "sample.jsonl"), "'a b' is neither a pipeline nor")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--from", "f", "--records", "5"), "--records: "),
        (("--from", "f", "--records", "0"), "--records: "),
        (("--from", "f", "--seed", "0"), "--seed: "),
        (("--from", "f", "--up-to"), "--up-to: "),
        (("--key", "id"), "--key: "),
        (("--from", "f", "--rate", "0"), "'--rate'"),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, tuple) else case,
)
def test_options_that_do_not_go_together_are_a_wrong_call(lockstep, options, words):
    assert_wrong_call(lockstep("dev", "produce", "orders", *options), words)


def test_a_name_without_sample_data_is_told_how_to_send_a_file(lockstep):
    assert_refused(
        lockstep("dev", "produce", "refunds"),
        "no sample data is named refunds; there is baskets, clicks, events, heartbeats, invoices, orders, page_views",
        "Next: lockstep dev produce refunds --from FILE.jsonl",
    )
