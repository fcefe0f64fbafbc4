"""Tests that a tally is exact for any range, any number of rows at once, and any order."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.errors import BadData
from lockstep.core.lake.files import LakeFile
from lockstep.core.proof.accounting import Digest, require_alike, rows_at
from lockstep.engine.sinks.tally import Tally, manifest_line
from lockstep.engine.sinks.writer import portions

ROWS = 50_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


OFFSETS = st.one_of(st.integers(100, 130), st.integers(2**31, 2**31 + 9), st.integers(2**62, 2**63 - 1))
RECORD = st.tuples(
    st.sampled_from([3, 7, 8]),
    OFFSETS,
    st.one_of(st.none(), st.integers(-(2**40), 2**40)),
    st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
    st.sampled_from([None, None, "bad"]),
)


@given(st.lists(st.lists(RECORD, max_size=12), max_size=4))
def test_a_tally_of_any_streams_in_any_order_is_that_of_each_record_alone(batches):
    tally = Tally(5, dict.fromkeys((3, 7, 8), 100))
    for rows in batches:
        columns = list(zip(*rows, strict=True)) or [()] * 5
        types = (pa.int32(), pa.int64(), pa.timestamp("us", "UTC"), pa.int32(), pa.string())
        names = ("_stream", "_offset", "_timestamp", "_bytes", "_reason")
        batch = pa.RecordBatch.from_arrays([pa.array(*each) for each in zip(columns, types, strict=True)], names)
        tally.delivered(batch)
        tally.staged(batch)
    records = [record for rows in batches for record in rows]
    lines = {line["stream_id"]: line for line in tally.lines().to_pylist()}
    assert lines.keys() == {stream for stream, *_ in records}
    for stream, line in lines.items():
        own = [record[1:] for record in records if record[0] == stream]
        offsets, good = [offset for offset, *_ in own], [offset for offset, *_, reason in own if reason is None]
        digest = Digest.of(offsets, 100)
        stamps = [EPOCH + timedelta(microseconds=stamp) for _, stamp, _, _ in own if stamp is not None]
        assert line == {
            "task": 5,
            "stream_id": stream,
            "delivered": len(own),
            "written": len(set(good)),
            "rejected": len(own) - len(good),
            "rows": len(good),
            "bytes": sum(~size if size < 0 else size for _, _, size, _ in own if size is not None),
            "digest_sum": str(digest.sum),
            "digest_squares": str(digest.squares),
            "first_offset": min(offsets),
            "last_offset": max(offsets),
            "min_timestamp": min(stamps, default=None),
            "max_timestamp": max(stamps, default=None),
        }


def test_a_row_without_a_stream_is_refused():
    batch = pa.RecordBatch.from_pydict(
        {"_stream": pa.array([7, None], pa.int32()), "_offset": [1, 2], "_reason": pa.nulls(2, pa.string())}
    )
    with pytest.raises(BadData, match="whose _stream is null"):
        Tally(1, {7: 0}).staged(batch)


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


def test_each_staging_table_takes_all_rows_and_the_first_target_s_takes_rejects():
    reasons = [None, "bad", None]
    mixed = pa.RecordBatch.from_pydict({"_offset": [1, 2, 3], "_reason": pa.array(reasons, pa.string())})

    def of(batch: pa.RecordBatch, tables: tuple[str, ...]) -> list[tuple[str, list[int]]]:
        return [(table, rows.column("_offset").to_pylist()) for table, rows in portions(batch, "a", tables)]

    assert of(mixed, ("a", "b")) == [("a", [1, 2, 3]), ("b", [1, 3])]
    assert of(mixed, ("b",)) == [("a", [2]), ("b", [1, 3])]  # the first target's rows go into files
    assert of(mixed, ()) == [("a", [2])]
    assert of(mixed.slice(0, 1), ("b", "c")) == [("b", [1]), ("c", [1])]
    assert of(mixed.slice(1, 1), ("b",)) == [("a", [2])]


def test_a_task_s_line_counts_its_rows_for_each_table_or_for_the_one_it_names():
    tally = Tally(1, {7: 0})
    tally.staged(
        pa.RecordBatch.from_pydict(
            {
                "_stream": pa.array([7] * 3, pa.int32()),
                "_offset": [1, 2, 3],
                "_reason": pa.array([None] * 3, pa.string()),
            }
        )
    )
    (row,) = tally.lines().to_pylist()
    alone, one = manifest_line(dict(row)), manifest_line(row | {"place": 1}, 2)
    file = LakeFile("f", 3, 500, {"7": (3, 6, 14, 1, 3)}, {"7": 98765432109876543210}, ("n",))
    each = manifest_line(row | {"files": json.dumps({1: [asdict(file)]})}, 2)
    assert (alone.rows, alone.rows_of, rows_at(alone, 0)) == (3, (), 3)
    assert (one.rows, one.rows_of) == (3, (0, 3))
    assert (each.rows, each.rows_of, rows_at(each, 1), each.written) == (6, (3, 3), 3, 3)
    assert each.files == {1: (file,)}


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ({(0, 7): (3, 6), (1, 7): (3, 6)}, None),
        ({(0, 7): (3, 6), (1, 7): (3, 7)}, "stream 7: 3 records .* a has 3 .sum 6., b has 3 .sum 7."),
        ({(0, 7): (3, 6), (1, 7): (2, 6)}, "stream 7"),
        ({(0, 7): (2, 3), (1, 7): (2, 3)}, "stream 7"),  # alike, and a record has no row anywhere
        ({(0, 7): (3, 6)}, "b has 0 .sum 0."),
        ({}, "stream 7"),
        ({(0, 7): (3, 6), (1, 7): (3, 6), (0, 8): (1, 1)}, "stream 8: 0 records"),
    ],
)
def test_tables_of_one_read_have_the_same_offsets_by_number_and_sum(found, wrong):
    fields = dict.fromkeys(("delivered", "rejected", "bytes"), 0) | {"digest_sum": "0", "digest_squares": "0"}
    line = manifest_line({"task": 1, "stream_id": 7, "written": 3, "rows": 3, **fields}, 2)
    if wrong is None:
        require_alike(1, [line], ["a", "b"], found)
        return
    with pytest.raises(BadData, match=wrong) as refused:
        require_alike(1, [line], ["a", "b"], found)
    assert refused.value.next_command == "lockstep batch 1"
