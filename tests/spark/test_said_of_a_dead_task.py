"""Tests the message when a task's process dies: the ranges that it read, and the way past a bad record."""

from __future__ import annotations

import pytest

from lockstep.core.errors import BadData
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.staging import StageWork
from lockstep.engine.spark.errors import as_our_error

RANGES = tuple(StreamRange(n, OffsetRange(TopicPartition("t", n), 5, 9)) for n in range(2))


@pytest.mark.parametrize(
    "line",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "Caused by: java.io.EOFException",
        "Caused by: java.lang.OutOfMemoryError: Java heap space",
    ],
)
def test_a_dead_task_names_its_ranges_and_the_next_command(line):
    work = StageWork("p", 7, 1, RANGES, ())
    said = as_our_error(Exception(f"Job aborted\n{line}\n\tat org.apache.spark.Here"), "p", work, KafkaOptions())
    assert isinstance(said, BadData)
    assert "t-0 [5, 9), t-1 [5, 9)" in str(said)
    assert "lockstep skip p --to PARTITION:OFFSET" in str(said)
