"""Tests odd logs through Spark's reader: what it omits, what it changes, and what must never block a partition."""

from __future__ import annotations

import json
import time
from contextlib import closing
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.kafka.reading import record_headers
from lockstep.adapters.postgres import connect
from lockstep.core.changes.person import Person
from lockstep.core.errors import UnreadableHeaders
from lockstep.core.isolation import HEADERS_UNREADABLE
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.planning.decisions import Blocked, Caller, Idle
from lockstep.engine.chosen import ChosenEngine, ProcessReader
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.steps.batch.plan import plan
from lockstep.steps.proof.verify import verify
from support.engines import BY_SPARK, IN_PROCESS
from support.scenes.odd_logs import (
    COMPACTED,
    compact,
    delete_records,
    offsets_in,
    records,
    send_with_header,
    stable_end,
)
from support.servers.servers import make_topic

ID = "id string, n int"
DDL = "id text, n int"
ME = Person("me", "a test")
NO_END = 2**63 - 1
YEAR_10000 = 253_402_300_800_000


def test_compaction_holes_at_either_end_of_a_range_and_in_its_middle_are_no_loss(pipeline, topic, produce, kafka):
    name = topic(partitions=1, **COMPACTED | {"delete_retention_ms": 86_400_000})  # the tombstone stays
    produce(name, [("a", json.dumps({"id": "a", "n": n})) for n in range(4)])  # 3 survives
    produce(name, [("b", json.dumps({"id": "b", "n": n})) for n in range(4)])  # 7 survives
    produce(name, [("a", None), ("c", json.dumps({"id": "c", "n": 9}))])
    compact(kafka, name, below=8)
    there = offsets_in(kafka, name)
    assert 0 not in there
    assert 4 not in there
    loaded = pipeline(name, ID, DDL, limits="Limits(records=5)")

    loaded.run_until_idle()

    ranges = loaded.ask("select lower(offsets), upper(offsets) from lockstep.coverage order by 1")
    assert ranges[0] == (0, 5)
    assert ranges[-1][1] == stable_end(kafka, name)
    kept = loaded.ask(f'select _offset from {loaded.name} union select "offset" from lockstep.reject order by 1')
    assert [offset for (offset,) in kept] == there
    assert loaded.violations() == []


def test_timestamps_out_of_order_missing_and_far_off_neither_lose_nor_hold_up_a_record(pipeline, topic, kafka):
    name = topic(partitions=1, message_timestamp_after_max_ms=NO_END)
    now = int(time.time() * 1000)
    times = [now, now - 86_400_000, -1, 1, now + 10 * 365 * 86_400_000, YEAR_10000, now]
    producer = Producer({"bootstrap.servers": kafka})
    for n, moment in enumerate(times):
        producer.produce(name, json.dumps({"id": "t", "n": n}), "k", timestamp=moment)
        producer.flush(10)
    loaded = pipeline(name, ID, DDL)

    report = loaded.run()

    assert [(r.delivered, r.written) for r in report.ranges] == [(len(times), len(times))]
    ((first, last),) = loaded.ask("select min_timestamp, max_timestamp from lockstep.result")
    assert (first.year, last.year) == (1970, 9999)  # a missing time is no time, and Python's calendar has an end
    assert loaded.violations() == []


def test_a_timestamp_past_every_calendar_stops_no_transform(pipeline, topic, produce, kafka):
    name = topic(partitions=1, message_timestamp_after_max_ms=NO_END)
    produce(name, records(2))
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(name, records(3)[2][1], "k", timestamp=2**62)
    producer.flush(10)
    loaded = pipeline(name, ID, DDL, transform="def transform(records):\n    return records\n")

    loaded.run()

    assert loaded.ask(f"select array_agg(n order by n) from {loaded.name}") == [([0, 1, 2],)]
    assert loaded.ask("select extract(year from max_timestamp) from lockstep.result") == [(9999,)]
    assert loaded.violations() == []


def test_a_missing_key_and_a_missing_value_are_each_what_they_are(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, [(None, json.dumps({"id": "no key", "n": 1})), ("k", None), (None, None), ("", b"")])
    loaded = pipeline(name, ID, DDL)

    loaded.run()

    assert loaded.ask(f"select id from {loaded.name}") == [("no key",)]
    kept = loaded.ask('select "offset", key, value, reason from lockstep.reject order by 1')
    assert [(o, k and bytes(k), v and bytes(v)) for o, k, v, _ in kept] == [
        (1, b"k", None),
        (2, None, None),
        (3, b"", b""),
    ]
    assert loaded.violations() == []


def test_the_longest_and_oddest_topic_name_is_a_name(pipeline, produce, kafka):
    name = f"..a-b_c..{time.time_ns()}".ljust(249, "_")
    make_topic(kafka, name, 1)
    produce(name, records(6))
    loaded = pipeline(name, ID, DDL)

    loaded.run()

    assert loaded.ask("select length(topic), position from lockstep.stream") == [(249, 6)]
    assert loaded.violations() == []


def test_poison_first_and_last_is_rejected_and_the_rest_goes_through(pipeline, topic, produce):
    name = topic(partitions=1)
    produce(name, [("p", b"\x00\xff{"), *records(10), ("p", b'{"id": "\\u0000", "n": 1}')])
    loaded = pipeline(name, ID, DDL)

    loaded.run()

    assert loaded.ask('select "offset" from lockstep.reject order by 1') == [(0,), (11,)]
    assert loaded.ask(f"select count(*) from {loaded.name}") == [(10,)]
    assert isinstance(loaded.run().decision, Idle)
    assert loaded.violations() == []


def test_records_deleted_inside_a_planned_range_are_named_and_nothing_of_it_is_committed(
    pipeline, topic, produce, kafka, database
):
    name = topic(partitions=1)
    produce(name, records(20))
    loaded = pipeline(name, ID, DDL)
    with closing(connect(database)) as conn:
        planned = plan(conn, Broker(kafka), load(loaded.name), Caller("test"), datetime.now(UTC))
    delete_records(kafka, name, 7)

    decision = loaded.run().decision

    assert isinstance(decision, Blocked)
    assert f"{name}-0" in decision.reason
    assert "--partition 0 --from 0 --until 7" in decision.next_command
    assert loaded.ask("select count(*) from lockstep.commit") == [(0,)]
    assert planned.batch_id


@pytest.mark.parametrize("here", [True, False], ids=["process", "spark"])
@pytest.mark.parametrize("more", [{}, {"guarantee": "PerPartition()"}], ids=["batch", "partition"])
def test_a_header_whose_name_is_no_utf8_makes_its_record_a_reject_and_stops_nothing(
    pipeline, topic, kafka, produce, more, here
):
    name = topic(partitions=2)
    produce(name, records(1), partition=0)
    send_with_header(kafka, name, b"caf\xe9", records(2)[1][1].encode())
    send_with_header(kafka, name, b"caf\xe9", b"no JSON")
    produce(name, records(1), partition=1)
    loaded = pipeline(name, ID, DDL, **more)
    at, spark, folder = loaded.parts()
    reader = KafkaRanges(kafka, KafkaOptions())
    choice = IN_PROCESS if here else BY_SPARK

    loaded.run(ChosenEngine(folder, lambda: ProcessReader(folder, reader, loaded.dsn), lambda: spark, choice))

    assert loaded.ask(f"select id, count(*) from {loaded.name} group by 1 order by 1") == [("r0", 2)]
    assert loaded.ask(
        "select reason, convert_from(value, 'UTF8'), headers from lockstep.reject order by \"offset\""
    ) == [
        (HEADERS_UNREADABLE, records(2)[1][1], None),
        (HEADERS_UNREADABLE, "no JSON", None),
    ]
    assert [check for check in verify(at.conn, at.broker, folder, deep=True) if not check.ok] == []
    with pytest.raises(
        UnreadableHeaders, match=f"{name}-0: the record at offset 1 has a header whose name is no UTF-8"
    ):
        list(map(record_headers, at.broker.records(name, 0, 0, 3)))


def test_a_second_look_at_a_header_that_cannot_be_read_says_so_again(topic, kafka):
    """The client keeps a broken list after its error. To unpack it would end the process."""
    name = topic(partitions=1)
    send_with_header(kafka, name, b"caf\xe9", b"{}")
    (message,) = Broker(kafka).records(name, 0, 0, 1)
    for _ in range(3):
        with pytest.raises(UnreadableHeaders, match="no UTF-8"):
            record_headers(message)
