"""Tests that verify finds what is wrong between a feed and its topic: a lost, changed, moved or strange record."""

from __future__ import annotations

from threading import Timer
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer

from feed.sends import Sends
from lockstep.adapters.kafka.group import set_back_group
from lockstep.adapters.processes import this_owner
from lockstep.core.changes.person import Person
from lockstep.core.offsets import TopicPartition
from lockstep.steps.feed.relay import restart
from lockstep.steps.proof.verify_topic import ANNOUNCED, TOPIC_IS_FEED, TopicRecords
from support.fakes.registry import a_registry


@pytest.fixture(params=["json", "avro"])
def sent(request, drill, topic):
    """Returns the drill, whose 150 rows were sent to a topic of two partitions."""
    here = Sends(drill)
    if request.param == "json":
        here.into(topic(partitions=2))
        here.drain()
        assert here.relay() == 150
        yield here
        return
    with a_registry() as registry:
        here.into(topic(partitions=2), more=', value=Avro(subject="drill-value")', registry=registry.url)
        here.drain()
        assert here.relay() == 150
        yield here


def stranger(here: Sends, partition: int, **headers: object) -> int:
    """Puts a record into the topic that no relay has sent. Returns its offset."""
    told = [(name.replace("_", "."), str(value).encode()) for name, value in headers.items()]
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": here.drill.kafka})
    producer.produce(
        here.sink, b"x", b"r1", partition=partition, headers=told, on_delivery=lambda _, m: offsets.append(m.offset())
    )
    producer.flush(20)
    return offsets[0]


def test_a_topic_that_is_the_feed_passes(sent):
    found = {check.name: check for check in sent.checks()}
    assert (found[ANNOUNCED].ok, found[ANNOUNCED].detail) == (True, f"{sent.sink} has the changes below number 150")
    assert (found[TOPIC_IS_FEED].ok, found[TOPIC_IS_FEED].detail) == (True, f"150 records of {sent.sink}")
    assert TOPIC_IS_FEED not in {check.name for check in sent.checks(deep=False)}
    assert ANNOUNCED in {check.name for check in sent.checks(deep=False)}


def test_deep_names_a_record_that_a_stranger_produced(sent):
    offset = stranger(sent, 1)
    assert sent.wrong() == [f"{TOPIC_IS_FEED}: {sent.sink}-1 offset {offset}: no relay has sent this record"]


@pytest.mark.parametrize(
    ("number", "told"), [(3, "change 3 stands behind change"), (150, "a change 150, which was never")]
)
def test_deep_names_a_record_with_a_number_that_is_not_its_own(sent, number, told):
    stranger(sent, 0, lockstep_number=number)
    (wrong,) = sent.wrong()
    assert wrong.startswith(f"{TOPIC_IS_FEED}: ")
    assert told in wrong


def test_deep_names_a_change_whose_image_was_changed_or_dropped(sent, postgres):
    images = f"lockstep_feed.{sent.table.replace('.', '_')}"
    sent.spoil(postgres, f"update {images} set n = -7 where _change_set = 1 and _ordinal_in_set = 5")
    sent.spoil(postgres, f"delete from {images} where _change_set = 1 and _ordinal_in_set = 9")
    (wrong,) = [each for each in sent.wrong() if each.startswith(TOPIC_IS_FEED)]
    assert f"change 5 has another key or value in {sent.sink}" in wrong
    assert f"{sent.sink} has a change 9, which was never announced" in wrong


def test_a_cursor_behind_or_past_what_the_ledger_knows_is_told(sent):
    ((group,),) = sent.drill.ask("select transactional_id from lockstep.relay")
    for number, told in ((151, "the next one gets 150"), (149, "had acknowledged those below 150")):
        set_back_group(sent.at.broker, group, {TopicPartition(sent.sink, 0): number})
        wrong = sent.wrong()
        assert len(wrong) == 1
        assert wrong[0].startswith(f"{ANNOUNCED}: {sent.sink} has the changes below number {number}")
        assert wrong[0].endswith(told)


def test_changes_that_a_person_has_sent_again_are_no_fault(sent):
    pipeline = sent.folder.pipeline
    restart(sent.at, pipeline, pipeline.first, this_owner(), 100, Person("me", "a test"))
    assert sent.relay() == 50
    assert sent.wrong() == []
    (found,) = [check for check in sent.checks() if check.name == TOPIC_IS_FEED]
    assert found.left_out == "changes below 100: they are trimmed, or of before the relay began anew"


def test_records_of_a_transaction_that_has_no_marker_yet_are_waited_for(drill, topic, produce):
    """A stranger's open transaction hides the relay's records, as the relay's own does until its markers are written."""
    here = Sends(drill)
    here.into(topic(partitions=1))
    here.drain()
    under_way = produce(here.sink, [("k", "x")], end="open")
    assert here.relay() == 150
    marker = Timer(1.0, under_way.abort_transaction, (20,))
    marker.start()
    assert here.wrong() == []
    marker.join()


def test_what_was_not_sent_yet_is_no_fault(drill, topic):
    here = Sends(drill)
    here.into(topic(partitions=1))
    here.drain()
    assert here.wrong() == []


def message(number: int, key: bytes, value: bytes | None, partition: int = 0):
    return SimpleNamespace(
        headers=lambda: [("lockstep.number", str(number).encode())],
        key=lambda: key,
        value=lambda: value,
        partition=lambda: partition,
        offset=lambda: number,
    )


def compared(there, changes, *, compacts: bool, until: int = 9) -> str:
    records = TopicRecords("sink", may_repeat=False)
    for each in there:
        records.take(each, lambda value: value)
    records.compare(iter(changes), 0, until, compacts=compacts)
    return str(records.wrong) if records.wrong.count else ""


CHANGES = [(0, [(b"a", b"1")]), (1, [(b"b", b"1")]), (2, [(b"a", b"2")]), (3, [(b"b", None)])]


def test_of_a_compacted_topic_the_newest_record_of_each_key_must_be_there():
    newest = [message(2, b"a", b"2")]
    assert compared(newest, CHANGES, compacts=True) == ""
    assert compared([message(0, b"a", b"1")], CHANGES, compacts=True) == "change 2 is not in sink"
    assert compared(newest, CHANGES, compacts=False).startswith("3 are wrong: change 0 is not in sink")
    assert compared([message(2, b"a", b"9")], CHANGES, compacts=True) == "change 2 has another key or value in sink"
    assert compared([], CHANGES, compacts=False, until=0) == ""


def test_a_tombstone_follows_the_document_of_a_deletion():
    changes = [(0, [(b"a", b"doc"), (b"a", None)])]
    assert compared([message(0, b"a", b"doc"), message(0, b"a", None)], changes, compacts=False) == ""
    assert "another key or value" in compared([message(0, b"a", b"doc")], changes, compacts=False)
