"""Tests that a tally is exact for any range, any number of rows at once, and any order."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from lockstep.core.proof.accounting import Digest
from lockstep.engine.sinks.tally import Tally

ROWS = 50_000


def told(offsets: list[int], from_offset: int) -> Digest:
    rows = len(offsets)
    columns = {
        "_stream": pa.array([7] * rows, pa.int32()),
        "_offset": pa.array(offsets, pa.int64()),
        "_timestamp": pa.array([datetime(2026, 5, 1, tzinfo=UTC)] * rows, pa.timestamp("us", "UTC")),
        "_bytes": pa.array([1] * rows, pa.int32()),
    }
    tally = Tally(1, {7: from_offset})
    tally.delivered(pa.RecordBatch.from_pydict(columns))
    (line,) = tally.lines().to_pylist()
    return Digest(line["delivered"], int(line["digest_sum"]), int(line["digest_squares"]))


@pytest.mark.parametrize(
    "offsets",
    [
        [2**24 - 1 - i for i in range(ROWS)],
        [i * 2**23 // ROWS for i in range(ROWS)],
        [i * (2**24 // ROWS) for i in range(ROWS)],
        [i * (2**40 // ROWS) for i in range(ROWS)],
        [5, 2**62, 2**63 - 1],
        list(range(2**62, 2**62 + ROWS)),
        [3],
    ],
    ids=["just-below-2-24", "holes", "wide", "wider", "widest", "far-away", "one"],
)
def test_a_digest_is_exact(offsets):
    assert told(offsets, 0) == Digest.of(offsets, 0)
    assert told(offsets, offsets[0] // 2) == Digest.of(offsets, offsets[0] // 2)


@pytest.mark.parametrize(
    ("batches", "written"),
    [
        ([[4, 5, 6]], 3),
        ([[4, 4, 5]], 2),
        ([[6, 4, 5, 4]], 3),
        ([[4, 5], [5, 6]], 3),
        ([[6, 7], [4, 5]], 4),
    ],
    ids=["in order", "several rows of one", "in no order", "rows of one in two batches", "batches in no order"],
)
def test_a_record_of_several_rows_is_written_once(batches, written):
    tally = Tally(1, {7: 0})
    for offsets in batches:
        rows = len(offsets)
        columns = {
            "_stream": pa.array([7] * rows, pa.int32()),
            "_offset": pa.array(offsets, pa.int64()),
            "_reason": pa.nulls(rows, pa.string()),
        }
        tally.staged(pa.RecordBatch.from_pydict(columns))
    (line,) = tally.lines().to_pylist()
    assert (line["written"], line["rows"]) == (written, sum(map(len, batches)))
