"""Converts leader epochs and timestamps of Kafka's client. Its numbers for "there is none" become None."""

from __future__ import annotations

from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

from lockstep.core.records import LAST_STAMP


def epoch_of(leader_epoch: int | None) -> int | None:
    """Returns a leader epoch, or None: old record formats and old brokers have none."""
    return leader_epoch if leader_epoch is not None and leader_epoch >= 0 else None


def milliseconds_of(record: Any) -> int | None:
    """Returns a record's timestamp, or None if it has none within Python's calendar."""
    kind, stamp = record.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE or not 0 <= stamp <= LAST_STAMP else int(stamp)
