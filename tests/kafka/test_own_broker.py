"""Tests what needs a separate broker: a log that loses its end, counts past 2^53, or is deleted by age."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource

from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.kafka.facts import SurveyedBroker
from lockstep.core.planning.decisions import Blocked, Idle, Start
from lockstep.steps.changes.retire import retire
from lockstep.steps.inspect.retention import retention_document
from support.scenes.here import ME
from support.scenes.odd_logs import alter, high_end, log_start, records, recreate, until
from support.servers.own_broker import OwnBroker

FAR = 2**53 + 1  # the first whole number that a double cannot hold


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    broker = OwnBroker(tmp_path_factory.mktemp("own"))
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def kafka(own):
    """Returns the address of a separate broker instead of the session's, for everything in this file."""
    return own.address


@pytest.mark.long
def test_a_truncated_log_stops_the_pipeline_and_names_both_ends(elsewhere, produce, own):
    here = elsewhere()
    name = here.drill.topic
    produce(name, records(12), 0)
    here.drain()
    own.truncate(name)
    here.at.broker = Broker(own.address)
    assert high_end(own.address, name) == 0
    produce(name, records(5, 500), 0)

    blocked = here.run().decision
    retire(here.at.conn, here.at.broker, here.folder.pipeline, 0, ME)
    here.drain()

    assert isinstance(blocked, Blocked)
    assert f"{name}-0" in blocked.reason
    assert "ends at 5" in blocked.reason
    assert "12" in blocked.reason
    assert blocked.next_command == "lockstep retire drill --partition 0 --reason ..."
    assert here.drill.ask("select incarnation, position from lockstep.stream order by 1") == [(0, 12), (1, 5)]
    assert here.drill.ask("select count(*) from public.drill where n >= 500") == [(5,)]


@pytest.mark.long
def test_a_client_that_lives_on_reads_a_topic_that_is_made_anew_behind_a_restart(own, topic, produce):
    name, other = topic(partitions=2), topic(partitions=1)
    produce(name, records(3), 0)
    known = Broker(own.address)
    assert known.view(name).bounds[0].stable_end == 3
    own.stop()
    own.start()  # a new leader, under a later epoch
    old = known.view(name)
    assert (old.bounds[0].stable_end, (old.bounds[0].leader_epoch or 0) > 0) == (3, True)

    recreate(own.address, name, 1)
    produce(name, records(5), 0)

    for _ in range(2):
        (new,) = known.topic_views([name]).topics
        assert known.view(name) == new
        assert new.topic_id != old.topic_id
        assert {p: bounds.stable_end for p, bounds in new.bounds.items()} == {0: 5}
        assert known.high_ends(new) == {0: 5}
        assert [record.offset() for record in known.records(name, 0, 0, 5)] == [0, 1, 2, 3, 4]
        assert len(known.topic_views([name, other]).topics) == 2


def test_offsets_past_two_to_the_53_are_exact_everywhere(elsewhere, produce, own):
    here = elsewhere()
    name = here.drill.topic
    own.move(name, FAR)
    here.at.broker = Broker(own.address)
    produce(name, records(7), 0)
    assert (log_start(own.address, name), high_end(own.address, name)) == (FAR, FAR + 7)

    here.run()
    produce(name, records(3, 100), 0)
    here.drain()
    replay = here.replay(f"0:{FAR}", f"0:{FAR + 7}")

    assert here.drill.ask("select position from lockstep.stream") == [(FAR + 10,)]
    assert here.drill.ask("select array_agg(_offset order by _offset) from public.drill") == [
        (list(range(FAR, FAR + 10)),)
    ]
    assert isinstance(replay[-1].decision, Idle)
    assert isinstance(here.ask("replay", f"0:{FAR}").windows[0].offsets.from_offset, int)
    assert here.drill.violations() == []


def test_retention_between_plan_and_read_stops_the_batch_before_anything_is_lost_unseen(elsewhere, produce, own):
    here = elsewhere(segment_ms=100)
    name = here.drill.topic
    produce(name, records(6), 0)
    assert isinstance(here.plan(), Start)
    alter(own.address, ConfigResource.Type.TOPIC, name, [("retention.ms", "500")])
    time.sleep(0.2)
    produce(name, records(1, 50), 0)  # another segment, so that the first may go
    until(lambda: log_start(own.address, name) == 7, "retention deleted nothing")

    blocked = here.run().decision

    assert isinstance(blocked, Blocked)
    assert f"{name}-0: offsets [0, 7)" in blocked.reason
    assert "accept-loss drill --partition 0 --from 0 --until 7" in blocked.next_command
    assert here.drill.ask("select count(*) from public.drill") == [(0,)]


def asked(here, own):
    """Returns the answer of `lockstep retention` for the only partition."""
    now = datetime.now(UTC)
    document = retention_document(
        here.at.conn, SurveyedBroker(own.address), here.folder.pipeline, timedelta(hours=6), now
    )
    (partition,) = document["partitions"]
    assert partition["state"] == "waits"
    return partition


def test_by_time_a_record_is_gone_when_it_was_predicted_within_a_tenth(elsewhere, produce, own):
    here = elsewhere(retention_ms=8_000, segment_ms=100)
    name = here.drill.topic
    produce(name, records(1), 0)

    predicted = asked(here, own)
    there = looked = datetime.now(UTC)
    while log_start(own.address, name) == 0:  # a log that grows, in segments of a tenth of a second
        there = looked
        produce(name, records(1, 50), 0)
        time.sleep(0.05)
        looked = datetime.now(UTC)
    gone = datetime.now(UTC)

    assert predicted["by"] == "time"
    assert predicted["seconds"] == pytest.approx(8, abs=2)
    assert gone >= predicted["deleted_at_earliest"]
    assert there - predicted["deleted_at_earliest"] < timedelta(seconds=0.8)


@pytest.mark.parametrize(
    ("pace", "each_hour", "size"), [("at_todays_rate", 10, 1_500_000), ("at_worst_hour", 40, 2_400_000)]
)
def test_by_size_a_record_is_gone_in_the_hour_that_was_predicted_within_a_tenth(elsewhere, own, pace, each_hour, size):
    """Writes ten records an hour for 30 hours, with one hour of forty, and then goes on at either pace, dated ahead.

    A segment is an hour of the records' own time, so that a day passes in seconds.
    """
    here = elsewhere(segment_ms=3_600_000, message_timestamp_after_max_ms=2**62, retention_ms=-1)
    name, now = here.drill.topic, time.time()
    producer = Producer({"bootstrap.servers": own.address})

    def write(hour: int, count: int) -> None:
        for n in range(count):
            stamp = int((now + (hour + n / count) * 3_600) * 1_000)
            producer.produce(name, json.dumps({"id": "x" * 4_000, "n": n}), "k", partition=0, timestamp=stamp)
        producer.flush(20)

    for hour in range(-30, 0):
        write(hour, 40 if hour == -28 else 10)
        if hour in {-29, -28, -1}:
            here.drain()
    first = high_end(own.address, name)
    alter(own.address, ConfigResource.Type.TOPIC, name, [("retention.bytes", str(size))])
    write(0, 1)

    found = asked(here, own)
    hours = (found[pace].timestamp() - now) / 3_600
    passed = 0
    while log_start(own.address, name) <= first:
        write(passed, each_hour)
        passed += 1
        if passed > 0.85 * hours:
            time.sleep(0.6)  # the broker looks every fifth of a second

    assert (found["by"], found["first_unread"]) == ("bytes", first)
    assert hours > 10
    assert passed == pytest.approx(hours, rel=0.1)


def values(here) -> list[tuple[int, int, int]]:
    return here.drill.ask(
        "select s.incarnation, d._offset, d.n from public.drill d"
        " join lockstep.stream s on s.stream_id = d._stream order by 1, 2"
    )


@pytest.mark.long
@pytest.mark.parametrize("new", [3, 20], ids=["and ends below the position", "and grew past the position again"])
def test_a_log_that_lost_its_end(elsewhere, produce, own, new):
    here = elsewhere()
    name = here.drill.topic
    produce(name, records(7), 0)
    produce(name, records(5, 7), 0)
    here.drain()
    before = values(here)
    own.cut(name, 7)
    here.at.broker = Broker(own.address)
    assert here.at.broker.view(name).bounds[0].stable_end == 7  # it waits for a leader
    produce(name, records(new, 500), 0)

    blocked = here.run().decision
    retire(here.at.conn, here.at.broker, here.folder.pipeline, 0, ME)
    here.drain()
    here.code = lambda value: value | {"n": 0}
    here.replay()

    assert isinstance(blocked, Blocked)
    what = "it ends at 10" if new == 3 else "the log lost its end and grew past the position 12 again"
    assert what in blocked.reason
    assert blocked.next_command == "lockstep retire drill --partition 0 --reason ..."
    assert before == [(0, n, n) for n in range(12)]
    assert values(here) == before + [(1, 7 + n, 0) for n in range(new)]
    starts = here.drill.ask("select incarnation, start_offset, position from lockstep.stream order by 1")
    assert starts == [(0, 0, 12), (1, 7, 7 + new)]


@pytest.mark.long
def test_a_broker_that_comes_back_with_the_whole_log_is_read_on(elsewhere, produce, own):
    here = elsewhere()
    name = here.drill.topic
    produce(name, records(12), 0)
    here.drain()
    (before,) = here.drill.ask("select leader_epoch from lockstep.stream")
    own.cut(name, 12)  # nothing is lost: a new leader alone
    here.at.broker = Broker(own.address)
    produce(name, records(5, 500), 0)

    here.drain()

    (after,) = here.drill.ask("select leader_epoch from lockstep.stream")
    assert after > before
    assert [n for _, _, n in values(here)] == [*range(12), *range(500, 505)]
