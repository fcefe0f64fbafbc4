"""Tests that records that a format filters are counted as delivered, and neither staged nor given to a transform."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from lockstep.engine.sinks.writer import Writer

NOBODY = "postgresql://nobody@127.0.0.1:1/none"


def filtered_records(n: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "_stream": pa.array([7] * n, pa.int32()),
            "_offset": pa.array(range(10, 10 + n), pa.int64()),
            "_timestamp": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * n, pa.timestamp("us", "UTC")),
            "_deleted": pa.array([False] * n),
            "_reason": pa.nulls(n, pa.string()),
            "_bytes": pa.array([3] * n, pa.int32()),
            "_filtered": pa.array([True] * n, pa.bool_()),
        }
    )


def test_a_task_whose_every_record_was_filtered_tells_what_it_was_given_and_opens_no_connection():
    writer = Writer(NOBODY, "attempt_1_1", 1, 1, {7: 10})
    (lines,) = writer.whole(iter([filtered_records(2), filtered_records(1)]))
    (line,) = lines.to_pylist()
    assert (line["delivered"], line["written"], line["rejected"], line["rows"]) == (3, 0, 0, 0)
    assert (line["first_offset"], line["last_offset"], line["bytes"]) == (10, 11, 9)


def test_a_task_without_records_says_nothing():
    assert list(Writer(NOBODY, "attempt_1_1", 1, 1, {7: 10}).whole(iter([filtered_records(0)]))) == []
