"""Tests that a spoiled batch of records is named by its offset.

No reader waits for it or dies of it, whether a disk or a producer spoiled it.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from lockstep.adapters.kafka.broker import Broker
from lockstep.core.errors import BadData
from lockstep.engine import kafka_ranges
from lockstep.engine.chosen import engine_of
from support.engines import IN_PROCESS
from support.scenes.here import Here
from support.servers.own_broker import OwnBroker
from support.servers.servers import make_topic

if TYPE_CHECKING:
    from lockstep.core.engine import Engine

INCLUDE = Path(__file__).parents[2] / "include"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SPOILS = ("record", "header", "magic")
HEAD = 61  # bytes before a batch's records
CRC_AT, CRC_FROM, MAGIC_AT = 17, 21, 16
EACH = 100  # records a batch
FIRST_STAMP = 1_700_000_000_000
READ = """
import json, sys, time
from lockstep.engine import kafka_ranges
from lockstep.adapters.kafka import client
from lockstep.adapters.kafka.broker import Broker
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
kafka_ranges.FETCH_PATIENCE = 2.0
address, late, ways, topics = sys.argv[1], float(sys.argv[2]), ("task", "verify"), sys.argv[3:]

class Late(kafka_ranges.Consumer):
    def consume(self, *args, **settings):
        time.sleep(late)
        return super().consume(*args, **settings)

kafka_ranges.Consumer = client.Consumer = Late

def read(way, topic, until):
    if way == "verify":
        return [m.offset() for m in Broker(address).records(topic, 0, 0, until)]
    item = StreamRange(1, OffsetRange(TopicPartition(topic, 0), 0, until))
    return [o for b in kafka_ranges.KafkaRanges(address, KafkaOptions()).records([item]) for o in b["_offset"].to_pylist()]

for topic, _, until in (each.partition("=") for each in topics):
    for way in ways:
        begun = time.monotonic()
        try:
            found = read(way, topic, int(until))
            said = ["read", found == list(range(int(until)))]
        except Exception as error:
            said = [type(error).__name__, str(error)]
        print(json.dumps([topic, way, *said, time.monotonic() - begun]), flush=True)
"""


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def spoil_second_batch(log: bytearray, topic: str) -> int:
    """Changes a bit of the second batch, or makes its compressed bytes nonsense with a matching checksum.

    Returns the batch's first offset: a busy producer may cut a hundred records into two batches.
    """
    (first,) = struct.unpack_from(">i", log, 8)
    at = first + 12
    base, length = struct.unpack_from(">qi", log, at)
    assert 0 < base < 4 * EACH
    chance, kind = random.Random(topic), topic.partition("-")[2]  # noqa: S311 - spread, not secrecy
    ranges = {"magic": (MAGIC_AT, MAGIC_AT + 1), "header": (CRC_FROM, HEAD), "record": (HEAD, length + 12)}
    if kind in ranges:
        log[at + chance.randrange(*ranges[kind])] ^= 1 << chance.randrange(1, 7)
    else:
        log[at + HEAD : at + HEAD + 8] = b"\xff" * 8
        struct.pack_into(">I", log, at + CRC_AT, crc32c(log[at + CRC_FROM : at + length + 12]))  # type: ignore[arg-type]
    return base


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    broker = OwnBroker(tmp_path_factory.mktemp("own"))
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def kafka(own):
    """Returns the address of a separate broker instead of the session's."""
    return own.address


def write_batches(address: str, topic: str, codec: str) -> None:
    """Writes four batches of records, whose bytes are the same each time.

    At a damaged batch librdkafka goes on reading at bytes that are no batch, and a few of these abort it (docs/traps.md).
    """
    for begin in range(0, 4 * EACH, EACH):
        producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 60_000})
        producer.list_topics(topic, 20)  # else what waits for the leader may go as a batch of its own
        for n in range(begin, begin + EACH):
            value = json.dumps({"id": f"r{n}", "n": n, "pad": "x" * 50})
            producer.produce(topic, value, f"k{n}", 0, timestamp=FIRST_STAMP + n)
        assert producer.flush(20) == 0


def read(address: str, topics: list[str], late: float = 0.0) -> list[list]:
    """Returns what a process of each way says of topics, each with the offset that it reads to.

    A process that is `late`, by so many seconds, finds the error together with the records before it.
    """
    done = subprocess.run(
        [sys.executable, "-c", READ, address, str(late), *topics],
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"PYTHONPATH": str(INCLUDE)},
        check=False,
    )
    assert done.returncode == 0, (done.stdout.splitlines()[-1:], done.stderr[-500:])
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_malformed_batch_is_named_by_offset_by_every_reader_and_ends_none(own):
    topics = [f"{codec}-{kind}" for codec in CODECS for kind in SPOILS] + ["gzip-compressed", "zstd-compressed"]
    for topic in topics:
        make_topic(own.address, topic, 1)
        write_batches(own.address, topic, topic.partition("-")[0])
    spoiled: dict[str, int] = {}
    own.spoil(lambda log, topic: spoiled.update({topic: spoil_second_batch(log, topic)}), topics)

    answers = read(own.address, [f"{topic}={4 * EACH}" for topic in topics])
    assert len(answers) == 2 * len(topics)
    for topic, way, kind, said, seconds in answers:
        assert kind == "BadData", (topic, way, said)
        assert f"{topic}-0: the batch of records at offset {spoiled[topic]} cannot be read" in said
        assert "lockstep skip NAME --to 0:OFFSET --reason ..." in said
        assert seconds < 30, (topic, way)

    before = [f"{topic}={spoiled[topic]}" for topic in topics]
    for topic, way, kind, is_whole, _ in [*read(own.address, before), *read(own.address, before, late=0.1)]:
        assert (kind, is_whole) == ("read", True), f"{topic}: by {way}, records before the batch: {is_whole}"


@pytest.mark.long
def test_a_malformed_batch_is_skipped_and_records_before_it_are_filled(elsewhere, own, monkeypatch):
    def by_this_process(here: Here) -> Engine:
        return engine_of(
            here.folder, here.at.broker, here.at.dsn, lambda: None, IN_PROCESS, lambda: pytest.fail("Spark was asked")
        )

    monkeypatch.setattr(kafka_ranges, "FETCH_PATIENCE", 2.0)
    monkeypatch.setattr(Here, "engine", property(by_this_process))
    here = elsewhere()
    topic, edges = here.drill.topic, []

    def spoil(log: bytearray, _topic: str) -> None:
        first = spoil_second_batch(log, "none-record")
        (length,) = struct.unpack_from(">i", log, 8)
        (length_of_second,) = struct.unpack_from(">i", log, 12 + length + 8)
        (third,) = struct.unpack_from(">q", log, 24 + length + length_of_second)
        edges.extend([first, third])

    write_batches(own.address, topic, "none")
    own.spoil(spoil, [topic])
    here.at.broker = Broker(own.address)
    first, third = edges
    with pytest.raises(Exception, match=f"the batch of records at offset {first} cannot be read") as refused:
        here.run()
    assert refused.type is BadData
    here.skip(f"0:{third}")
    here.drain()
    here.fill("0:0", f"0:{first}")
    held = here.drill.ask("select _offset, id, n from public.drill order by 1")
    assert held == [(n, f"r{n}", n) for n in (*range(first), *range(third, 4 * EACH))]
