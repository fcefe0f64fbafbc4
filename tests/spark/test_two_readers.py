"""Tests that a reader gives the records of any range of any log, to the byte, from Kafka and from archived files."""

from __future__ import annotations

import gc
import hashlib
import json
import pickle
import random
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from lockstep.adapters.archive.store import ArchiveStore
from lockstep.adapters.kafka.broker import Broker
from lockstep.core.errors import Unreachable
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.pipeline.limits import RecordLimits
from lockstep.core.proof.accounting import Digest
from lockstep.core.retention.archive import Archive, ArchivedFile
from lockstep.core.staging import StageWork
from lockstep.engine import kafka_ranges
from lockstep.engine.archive_file import archive_rows
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.engine.kafka_raw import log_place
from lockstep.engine.part_reader import reader_of
from support.scenes.odd_logs import COMPACTED, compact, delete_records, high_end, log_start, records, stable_end

NO_END = 2**63 - 1
LAST = 253_402_214_400_000  # milliseconds: the last day of 9999
BOTH = COMPACTED | {"cleanup_policy": "compact,delete"}  # records of a log that is only compacted cannot be deleted
HEADERS = [("a", b"x"), ("a", None), ("", b""), ('ü"\\\n', bytes(range(256))), ("long", b"x" * 300)]
TIMES = [1, -1, 86_400_000, 1_700_000_000_123, 253_402_214_400_001, 253_402_300_800_000]


@pytest.fixture
def odd(kafka, topic, produce):
    """Makes a topic of four logs.

    These have all kinds of records, both ends of transactions, holes of compaction, and an open transaction.
    """
    name = topic(4, message_timestamp_after_max_ms=NO_END, retention_ms=-1, **BOTH)
    producer = Producer({"bootstrap.servers": kafka})
    for n in range(60):
        key = [f"k{n}".encode(), b"", "ö".encode()][n % 3]
        value = [None, b"", b"{}", b"\xff\x00", f"v{n}".encode() * 50][n % 5]
        producer.produce(name, value, key, 0, headers=HEADERS[: n % 6], timestamp=TIMES[n % 6])
    producer.flush(20)
    for n, end in enumerate(["commit", "abort", "commit", "abort", "abort"]):
        produce(name, records(7, n * 7), 1, end)
    produce(name, [("a", "old")] * 5 + [("b", "old")] * 5 + [("a", "new"), ("b", "new")], 2)
    compact(kafka, name, below=9, partition=2)
    produce(name, records(20), 3)
    delete_records(kafka, name, 4, 3)
    longer_than_a_test = {"transaction.timeout.ms": 600_000}
    hanging = produce(name, records(3), 3, "open", **longer_than_a_test)
    assert high_end(kafka, name, 3) > stable_end(kafka, name, 3)
    yield kafka, name
    hanging.abort_transaction(20)


def cut(kafka: str, topic: str, seed: int) -> list[StreamRange]:
    """Draws a range of each log, somewhere between its start and its stable end."""
    chance, made = random.Random(seed), []  # noqa: S311 - spread, not secrecy
    for partition in range(4):
        first, last = log_start(kafka, topic, partition), stable_end(kafka, topic, partition)
        begin = chance.choice([first, chance.randrange(first, last)])
        until = chance.choice([last, chance.randrange(begin + 1, last + 1)])
        made.append(StreamRange(10 + partition, OffsetRange(TopicPartition(topic, partition), begin, until)))
    return made


def by_hand(kafka: str, ranges: list[StreamRange], limits: RecordLimits) -> list[dict]:
    """Returns the records of the ranges as a plain consumer has them, one by one."""
    made = []
    for item in ranges:
        at = item.offsets
        for message in Broker(kafka).records(*log_place(item), at.from_offset, at.until_offset):
            key, value, headers = message.key(), message.value(), message.headers() or []
            told = [{"key": n} | ({} if v is None else {"value": b64encode(v).decode()}) for n, v in headers]
            row = {
                "_stream": item.stream_id,
                "_offset": message.offset(),
                "_ordinal": 0,
                "_partition": message.partition(),
            }
            row |= {"_topic": message.topic(), "_bytes": len(key or b"") + len(value or b"")}
            stamp = message.timestamp()[1]
            calendar = (
                datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=min(stamp, LAST)) if stamp >= 0 else None
            )
            row |= {"_timestamp": calendar, "_key": key, "_value": value, "_headers": told or None}
            if len(headers) > limits.headers:
                size = row["_bytes"] + sum(len(n.encode()) + len(v or b"") for n, v in headers)
                row |= dict.fromkeys(("_key", "_value", "_headers")) | {"_bytes": size + len(headers) * 2**32}
            made.append(row)
    return made


def rows(batches) -> list[dict]:
    found = [row for batch in batches for row in batch.to_pylist()]
    for row in found:
        row["_headers"] = row["_headers"] and json.loads(row["_headers"])
    return found


def test_it_gives_the_records_of_any_range_of_one_topic_or_two(odd, topic, produce, monkeypatch):
    kafka, one = odd
    other = topic(4)
    for partition in range(4):
        produce(other, records(9, 100 * partition), partition)
    for seed, together in enumerate([1, 1, 40, 40, 1000, 1000] * 2):
        monkeypatch.setattr(kafka_ranges, "OFFSETS_READ_TOGETHER", together)
        ranges = cut(kafka, one, seed)
        if seed % 2:
            ranges += [replace(item, stream_id=item.stream_id + 10) for item in cut(kafka, other, seed)]
        limits = RecordLimits(headers=1 + seed % 3)
        here = list(KafkaRanges(kafka, KafkaOptions(), limits).records(ranges))

        found = rows(here)
        assert sorted(found, key=place) == sorted(by_hand(kafka, ranges, limits), key=place)
        assert [place(row) for row in found] == sorted(map(place, found)), "one stream after another, each in order"


def place(row: dict) -> tuple[int, int]:
    return row["_stream"], row["_offset"]


def archived(kafka: str, topic: str, place, chance: random.Random) -> list[ArchivedFile]:
    """Archives a part of each log, in files that meet at any offset."""
    store, made = ArchiveStore(f"file://{place}"), []
    for partition in range(4):
        first, last = log_start(kafka, topic, partition), stable_end(kafka, topic, partition)
        cuts = sorted({first, *(chance.randrange(first, last + 1) for _ in range(3))})
        for begin, until in pairwise(cuts):
            offsets = OffsetRange(TopicPartition(topic, partition), begin, until)
            reader = KafkaRanges(kafka, KafkaOptions(), limits=None)
            held = [held for held, _, _ in reader.messages([StreamRange(1, offsets)], lambda: None)]
            messages = [message for part in held for message in part[topic, partition]]
            local, path = place / "local", f"{partition}/{begin}.parquet"
            pq.write_table(pa.Table.from_batches([archive_rows(messages)]), local)
            store.put(path, local)
            digest = Digest.of([message.offset() for message in messages], begin)
            sha256 = hashlib.sha256(local.read_bytes()).hexdigest()
            made.append(ArchivedFile(offsets, path, digest.n, (digest.sum, digest.squares), sha256))
    return made


@pytest.mark.long
def test_archived_files_give_the_same_records_as_kafka_of_any_range(odd, tmp_path):
    kafka, topic = odd
    for seed, most in enumerate([RecordLimits().bytes, 40, RecordLimits().bytes, 5]):
        place = tmp_path / str(seed)
        place.mkdir()
        files = archived(kafka, topic, place, random.Random(seed))  # noqa: S311 - spread, not secrecy
        work = StageWork("p", 1, 1, tuple(cut(kafka, topic, seed)), (), archived=tuple(files))
        log = KafkaRanges(kafka, KafkaOptions(), RecordLimits(bytes=most, headers=1 + seed))
        reader = pickle.loads(pickle.dumps(reader_of(work, log, Archive(f"file://{place}"))))  # noqa: S301 - as executors

        there, here = list(log.records(work.ranges)), list(reader.records(work.ranges))

        assert pa.Table.from_batches(here) == pa.Table.from_batches(there)
        hidden = StreamRange(10, OffsetRange(TopicPartition(topic, 0), work.ranges[0].offsets.from_offset, NO_END))
        hiding = reader_of(replace(work, hidden=(hidden,)), log, Archive(f"file://{place}"))
        first, *others = pa.Table.from_batches(list(hiding.records(work.ranges))).to_pylist()
        full, *rest = pa.Table.from_batches(there).to_pylist()
        gone = dict.fromkeys(("_key", "_value", "_headers")) | {"_bytes": ~full["_bytes"]}
        assert (first, others) == (full | gone, rest)


def test_offsets_that_are_gone_or_not_there_yet_are_named_and_nothing_stands_for_them(odd, monkeypatch):
    monkeypatch.setattr(kafka_ranges, "FETCH_PATIENCE", 2.0)
    kafka, topic = odd
    read = KafkaRanges(kafka, KafkaOptions()).records
    for begin, until in [(0, 6), (3, 4), (10, stable_end(kafka, topic, 3) + 1), (5_000, 5_001)]:
        lost = StreamRange(1, OffsetRange(TopicPartition(topic, 3), begin, until))
        with pytest.raises(Unreachable, match=rf"{topic}-3 \[{begin}, {until}\) could not be read from Kafka"):
            list(read([lost]))


def test_a_broker_that_is_away_is_waited_for_and_then_told(monkeypatch):
    monkeypatch.setattr(kafka_ranges, "FETCH_PATIENCE", 1.0)
    nobody = StreamRange(1, OffsetRange(TopicPartition("t", 0), 0, 5))
    usual = gc.get_threshold()
    with pytest.raises(Unreachable, match=r"t-0 \[0, 5\) could not be read from Kafka at 127.0.0.1:1: nothing came"):
        list(KafkaRanges("127.0.0.1:1", KafkaOptions()).records([nobody]))
    assert gc.get_threshold() == usual, "Python goes on looking for cycles as it did"
