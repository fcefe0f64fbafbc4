"""Tests that many large records are read in little memory: by ranges together, one by one, and through Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.engine import kafka_ranges
from lockstep.engine.kafka_ranges import KafkaRanges

MEGABYTE, GIBIBYTE = 2**20, 2**30
LARGE = 10 * MEGABYTE
PARTITIONS, EACH = 10, 25
READ = """
import resource, sys
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.engine.kafka_ranges import KafkaRanges

topic, partitions, each = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
ranges = [StreamRange(p, OffsetRange(TopicPartition(topic, p), 0, each)) for p in range(partitions)]
for batch in KafkaRanges(sys.argv[1], KafkaOptions()).records(ranges):
    for stream, offset, size in zip(*(batch.column(name).to_pylist() for name in ("_stream", "_offset", "_bytes"))):
        print(stream, offset, size)
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def ranges_of(name: str, partitions: int, each: int) -> list[StreamRange]:
    return [StreamRange(7 + p, OffsetRange(TopicPartition(name, p), 0, each)) for p in range(partitions)]


def read(kafka: str, ranges: list[StreamRange]) -> list[tuple]:
    batches = KafkaRanges(kafka, KafkaOptions()).records(ranges)
    return [(row["_stream"], row["_offset"], row["_value"]) for batch in batches for row in batch.to_pylist()]


def test_ranges_with_too_many_bytes_are_read_one_by_one_and_give_the_same(kafka, topic, produce, monkeypatch):
    name = topic(partitions=4)
    for partition in range(4):
        produce(name, [("k", f"{partition} {n} ".encode() * 200) for n in range(50)], partition=partition)
    ranges = ranges_of(name, 4, 50)
    together = read(kafka, ranges)
    assert together == [(7 + p, n, f"{p} {n} ".encode() * 200) for p in range(4) for n in range(50)]

    assert len(list(KafkaRanges(kafka, KafkaOptions()).records(ranges))) == 1
    monkeypatch.setattr(kafka_ranges, "RECORDS_PER_ARROW_BATCH", 20)  # so that some ranges end before they are too many
    for most in (0, 20_000, 100_000):
        monkeypatch.setattr(kafka_ranges, "BYTES_READ_TOGETHER", most)
        assert read(kafka, ranges) == together
        assert len(list(KafkaRanges(kafka, KafkaOptions()).records(ranges))) >= len(ranges)


@pytest.fixture
def large(request, topic, produce):
    """Returns the name of a topic with 25 records of 10 MB in each partition, as JSON that no codec makes smaller."""
    name = topic(partitions=request.param, **{"max.message.bytes": str(2 * LARGE)})
    for partition in range(request.param):
        for n in range(EACH):
            value = b'{"id": "%d", "n": %d, "text": "%s"}' % (partition, n, os.urandom(LARGE // 2).hex().encode())
            produce(name, [("k", value)], partition=partition, **{"message.max.bytes": 2 * LARGE})
    return name


@pytest.mark.long
@pytest.mark.parametrize("large", [PARTITIONS], indirect=True)
def test_250_records_of_10_mb_are_read_within_a_gibibyte(kafka, large):
    call = [sys.executable, "-c", READ, kafka, large, str(PARTITIONS), str(EACH)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    *records, peak = done.stdout.splitlines()
    assert [line.split()[:2] for line in records] == [[str(p), str(n)] for p in range(PARTITIONS) for n in range(EACH)]
    assert all(LARGE < int(line.split()[2]) < LARGE + 100 for line in records)
    assert int(peak.split()[1]) < GIBIBYTE


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("large", [4], indirect=True)
def test_100_records_of_10_mb_reach_the_table_and_no_process_of_python_takes_a_gibibyte(large, pipeline, kafka):
    made = pipeline(large, "id string, n int, text string", "id text, n int, text text")
    environ = os.environ | {"LOCKSTEP_DSN": made.dsn, "LOCKSTEP_KAFKA": kafka}
    program = Path(sys.executable).parent / "lockstep"
    peaks: dict[str, int] = {}
    with subprocess.Popen([program, "run", made.name], env=environ, stdout=-1, stderr=-1, text=True) as process:
        while process.poll() is None:
            measure(process.pid, peaks)
            time.sleep(0.05)
        out, err = process.communicate()

    assert (process.returncode, err) == (0, "")
    assert "100 written" in out
    assert made.ask(
        f"select count(*), count(distinct (id, n)), min(length(text)), max(length(text)) from {made.name}"
    ) == [(100, 100, LARGE, LARGE)]
    assert max(size for name, size in peaks.items() if name != "java") < GIBIBYTE, peaks


def measure(pid: int, peaks: dict[str, int]) -> None:
    """Keeps the largest resident size of each kind of process below this one."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return
    if found := re.search(r"VmHWM:\s+(\d+)", text):
        name = text.split()[1]
        peaks[name] = max(peaks.get(name, 0), int(found[1]) * 1024)
    for child in children:
        measure(int(child), peaks)
