"""Tests that a record that is huge once decompressed is a reject with its size, and stops no other record."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from lockstep.adapters.kafka.broker import Broker
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.pipeline.limits import RecordLimits
from lockstep.core.records import HEADERS_UNIT
from lockstep.engine.kafka_ranges import KafkaRanges

MEGABYTE = 2**20
BOMB = 250 * MEGABYTE


def fill(kafka: str, topic: str, codec: str, records: list[tuple[bytes | None, bytes | None, list | None]]) -> None:
    """Writes one batch of the log for each record."""
    most = {"message.max.bytes": 1_000_000_000, "queue.buffering.max.kbytes": 2_000_000, "batch.num.messages": 1}
    producer = Producer({"bootstrap.servers": kafka, "compression.type": codec, **most})
    failed = []
    for key, value, headers in records:
        producer.produce(
            topic, value, key, 0, headers=headers, on_delivery=lambda error, _: error and failed.append(error)
        )
        assert producer.flush(60) == 0
    assert failed == []


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_a_bomb_comes_without_its_bytes_and_the_others_with_theirs(kafka, topic, codec):
    name = topic(partitions=1)
    fill(
        kafka,
        name,
        codec,
        [(b"a", b"1", None), (b"b", b"x" * BOMB, None), (b"c", None, None), (b"d", b"4", [("h", b"v")])],
    )
    item = StreamRange(1, OffsetRange(TopicPartition(name, 0), 0, 4))

    read = [row for batch in KafkaRanges(kafka, KafkaOptions()).records([item]) for row in batch.to_pylist()]

    assert [(row["_offset"], row["_key"], row["_value"], row["_bytes"]) for row in read] == [
        (0, b"a", b"1", 2),
        (1, None, None, BOMB + 1),
        (2, b"c", None, 1),
        (3, b"d", b"4", 2),
    ]
    assert [record.offset() for record in Broker(kafka).records(name, 0, 0, 4)] == [0, 1, 2, 3]


FORMS = {
    "by columns": 'Json("id string, n int")',
    "by Spark": 'Json("id string, n int", strict=True)',
}


@pytest.mark.parametrize("form", FORMS)
def test_a_bomb_is_a_reject_with_its_size_and_the_others_are_rows(pipeline, topic, kafka, form):
    name = topic(partitions=1)
    limit = 3 * MEGABYTE
    loaded = pipeline(
        name,
        "",
        "id text, n int",
        form=FORMS[form],
        max_reject_share="1.0",
        record_limits=f"RecordLimits(bytes={limit})",
    )
    good = [(b"k", json.dumps({"id": f"r{n}", "n": n}).encode(), None) for n in range(20)]
    bombs = [
        (b"k", b'{"id":"' + b"x" * 40 * MEGABYTE + b'","n":1}', None),
        (b"y" * (limit + 1), good[0][1], None),
        (b"k", good[0][1], [("h", b"z" * limit)]),
        (None, b"[" * (limit + 1), None),
    ]
    fill(kafka, name, "zstd", [*good[:10], *bombs, *good[10:]])

    report = loaded.run()

    assert [(r.delivered, r.written, r.rejected) for r in report.ranges] == [(24, 20, 4)]
    rejects = loaded.ask('select "offset", reason, key, value, headers from lockstep.reject order by 1')
    sizes = [sum(map(len, (k or b"", v))) + sum(len(h[0]) + len(h[1]) for h in hs or ()) for k, v, hs in bombs]
    assert rejects == [
        (10 + n, f"is {size} bytes after decompression; the limit is {limit} (record_limits.bytes)", None, None, None)
        for n, size in enumerate(sizes)
    ]
    assert len(loaded.ask(f"select 1 from public.{loaded.name}")) == 20
    # A reject keeps its bytes, and the checker says so of each: these alone do not.
    said = [violation.partition(":")[0] for violation in loaded.violations()]
    assert said == [f"reject of stream 1 offset {offset}" for offset in range(10, 14)]


MANY = [("h", b"1")] * 6
LIMIT = RecordLimits(headers=5)


def test_a_record_of_too_many_headers_comes_without_its_bytes(kafka, topic):
    name = topic(partitions=1)
    headers: list[list | None] = [None, MANY[:5], MANY, [("h", None)] * 7, MANY * 15_000]
    fill(kafka, name, "zstd", [(b"k", b"v", each) for each in headers])
    item = StreamRange(1, OffsetRange(TopicPartition(name, 0), 0, 5))

    here = [row for batch in KafkaRanges(kafka, KafkaOptions(), LIMIT).records([item]) for row in batch.to_pylist()]

    found = [(row["_value"], *reversed(divmod(row["_bytes"], HEADERS_UNIT))) for row in here]
    assert found == [(b"v", 2, 0), (b"v", 2, 0), (None, 14, 6), (None, 9, 7), (None, 180_002, 90_000)]
    assert [bool(row["_headers"]) for row in here] == [False, True, False, False, False]


@pytest.mark.parametrize("form", FORMS)
def test_a_record_of_too_many_headers_is_a_reject_that_names_count_and_limit(pipeline, topic, kafka, form):
    name = topic(partitions=1)
    loaded = pipeline(
        name,
        "",
        "id text, n int",
        form=FORMS[form],
        max_reject_share="1.0",
        record_limits="RecordLimits(headers=5)",
    )
    good = [(f"k{n}".encode(), json.dumps({"id": f"r{n}", "n": n}).encode(), [("h", b"1")] * n) for n in range(8)]
    fill(kafka, name, "zstd", good)

    report = loaded.run()

    assert [(r.delivered, r.written, r.rejected) for r in report.ranges] == [(8, 6, 2)]
    why = "has {} headers; the limit is 5 (record_limits.headers); key, value and headers are not kept"
    rejects = loaded.ask('select "offset", reason, key, value, headers from lockstep.reject order by 1')
    assert rejects == [(offset, why.format(offset), None, None, None) for offset in (6, 7)]
    written = sum(len(key) + len(value) + 2 * len(headers) for key, value, headers in good[6:])
    counted = sum(len(key) + len(value) for key, value, _ in good[:6])
    assert loaded.ask("select sum(bytes)::int from lockstep.result") == [(written + counted,)]
