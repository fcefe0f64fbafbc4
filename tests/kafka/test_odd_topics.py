"""Tests topics that lose their beginning, are recreated, have odd names, or a thousand partitions."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Where

from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange, TopicPartition
from lockstep.core.planning.decisions import Blocked, Caller, Resume, Start
from lockstep.steps.batch.run import run
from lockstep.steps.changes.decisions import accept_loss
from lockstep.steps.changes.retire import retire
from support.fakes.plain_engine import PlainEngine
from support.oracles.checker import check
from support.scenes.here import ME
from support.scenes.odd_logs import delete_records, offsets_in, records, recreate
from support.servers.servers import make_topic

NO_END = 2**63 - 1


class Meanwhile(PlainEngine):
    """An event of the log after the plan was checked and before it is read."""

    happens = staticmethod(lambda: None)

    def read(self, work, sink):
        self.happens()
        return super().read(work, sink)


def test_records_deleted_inside_a_planned_range_stop_it_until_the_loss_is_accepted(elsewhere, produce):
    here = elsewhere()
    kafka, name = here.drill.kafka, here.drill.topic
    produce(name, records(20), 0)
    assert isinstance(here.plan(), Start)
    delete_records(kafka, name, 7)

    blocked = here.run().decision
    accept_loss(here.at.conn, here.at.broker, here.folder.pipeline, OffsetRange(TopicPartition(name, 0), 0, 7), ME)
    here.drain()

    assert isinstance(blocked, Blocked)
    assert f"{name}-0: offsets [0, 7)" in blocked.reason
    assert blocked.next_command == "lockstep accept-loss drill --partition 0 --from 0 --until 7 --reason ..."
    assert here.drill.ask("select min(_offset), count(*) from public.drill") == [(7, 13)]
    assert here.drill.violations() == []


def test_records_deleted_between_plan_and_read_fail_the_attempt_and_publish_nothing(elsewhere, produce):
    here = elsewhere()
    kafka, name = here.drill.kafka, here.drill.topic
    produce(name, records(20), 0)
    engine = Meanwhile(here.folder, kafka, here.drill.dsn)
    engine.happens = lambda: delete_records(kafka, name, 7)

    with pytest.raises(Refusal, match=r"-0 \[0, 20\).*now starts at 7"):
        run(here.at, engine, here.folder, Caller("me"))

    assert here.drill.ask("select count(*) from public.drill") == [(0,)]
    assert isinstance(here.run().decision, Blocked)
    assert here.drill.violations() == []


def test_a_topic_made_again_between_plan_and_read_fails_the_attempt_and_waits_for_retire(elsewhere, produce):
    here = elsewhere()
    kafka, name = here.drill.kafka, here.drill.topic
    produce(name, records(20), 0)
    engine = Meanwhile(here.folder, kafka, here.drill.dsn)

    def made_again() -> None:
        recreate(kafka, name, 1)
        produce(name, records(20, 500), 0)  # the same offsets, other records

    engine.happens = made_again
    with pytest.raises(Refusal, match="not the one"):
        run(here.at, engine, here.folder, Caller("me"))
    blocked = here.run().decision
    retire(here.at.conn, here.at.broker, here.folder.pipeline, None, ME)
    here.drain()

    assert isinstance(blocked, Blocked)
    assert blocked.next_command == "lockstep retire drill --reason ..."
    assert here.drill.ask("select min(n), count(*) from public.drill") == [(500, 20)]
    assert here.drill.ask("select incarnation, count(*) from lockstep.stream group by 1 order by 1") == [(0, 1), (1, 1)]


def test_timestamps_out_of_order_missing_and_in_the_future_move_no_offset(elsewhere):
    here = elsewhere(message_timestamp_after_max_ms=NO_END)
    now = datetime.now(UTC)
    times = [int((now + timedelta(days=d)).timestamp() * 1000) for d in (0, -1, 3650, -400, 0)] + [-1, 1]
    producer = Producer({"bootstrap.servers": here.drill.kafka})
    for n, moment in enumerate(times):
        producer.produce(here.drill.topic, f'{{"id": "t", "n": {n}}}', "k", partition=0, timestamp=moment)
        producer.flush(10)
    assert offsets_in(here.drill.kafka, here.drill.topic) == list(range(7))

    here.drain()
    future = here.at.broker.offsets_at(here.at.broker.view(here.drill.topic), now + timedelta(days=1))

    assert future == {0: 2}  # one record from the future is the first at or past every time before it
    assert here.drill.ask("select array_agg(n order by _offset) from public.drill") == [([0, 1, 2, 3, 4, 5, 6],)]
    assert here.drill.violations() == []


def test_a_missing_key_is_no_fault_and_a_missing_value_is_a_reject(elsewhere, produce):
    here = elsewhere()
    produce(here.drill.topic, [(None, '{"id": "x", "n": 1}'), (None, None), ("k", None)], 0)

    here.drain()

    assert here.drill.ask("select id from public.drill") == [("x",)]
    kept = here.drill.ask('select "offset", key, value from lockstep.reject order by 1')
    assert [(offset, key and bytes(key), value) for offset, key, value in kept] == [(1, None, None), (2, b"k", None)]
    assert here.drill.violations() == []


def test_poison_first_and_last_is_rejected_and_holds_nothing_up(elsewhere, produce):
    here = elsewhere()
    produce(here.drill.topic, [("p", b"\xff"), *records(10), ("p", b"{")], 0)

    here.drain()

    assert here.drill.ask('select "offset" from lockstep.reject order by 1') == [(0,), (11,)]
    assert here.drill.ask("select count(*) from public.drill") == [(10,)]
    assert here.drill.violations() == []


@pytest.mark.parametrize("form", ["{}", "_{}", "..{}..", "a.b-c_d{}", "{:x<249}"])
def test_an_odd_topic_name_is_a_name(elsewhere, produce, kafka, form):
    name = form.format(time.time_ns())
    make_topic(kafka, name, 1)
    here = elsewhere(name)
    produce(name, records(3), 0)

    here.drain()

    assert len(name) < 250
    assert here.drill.ask("select topic, position from lockstep.stream") == [(name, 3)]
    assert here.drill.violations() == []


def all_of(kafka: str, topic: str) -> dict[int, dict[int, tuple]]:
    """Returns partition → offset → record, by one reader of all partitions."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "all", "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([Where(topic, p, 0) for p in partitions])
    found: dict[int, dict[int, tuple]] = {p: {} for p in partitions}
    ended = 0
    while ended < len(partitions):
        message = consumer.poll(10)
        assert message is not None, "no answer"
        if message.error():
            ended += 1
        else:
            found[message.partition()][message.offset()] = (message.key(), message.value())
    consumer.close()
    return found


@pytest.mark.long
def test_a_thousand_partitions_are_one_batch_and_each_has_its_position(elsewhere, produce, kafka):
    name = f"wide-{time.time_ns()}"
    make_topic(kafka, name, 1_000)
    here = elsewhere(name)
    here.rewrite("records=200", "records=100_000")
    produce(name, records(5_000))

    assert isinstance(here.plan(), Start)
    assert isinstance(here.run().decision, Resume)

    assert here.drill.ask("select count(*), sum(position) from lockstep.stream") == [(1_000, 5_000)]
    assert here.drill.ask("select count(distinct batch_id) from lockstep.commit") == [(1,)]
    streams = dict(here.drill.ask("select stream_id, partition from lockstep.stream"))
    log = all_of(kafka, name)
    assert check(here.drill.dsn, lambda stream, _: log[streams[stream]], "drill", table="public.drill") == []
