"""Tests that each row of a range goes to one of two tables, and which bytes are kept."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from lockstep.core.engine import RangeOutcome
from lockstep.core.proof.accounting import Digest, ManifestLine
from lockstep.core.records import RAW_NAMES
from lockstep.core.states import RangeEnd
from lockstep.engine.sinks.copy_binary import copy_binary, field_of_row
from lockstep.engine.sinks.range_rows import RangeRows

STRAIGHT = ("_stream", "_offset", "_batch", "n")
BATCH, STREAM = 5, 7
LINE = ManifestLine(1, STREAM, 2, 1, 1, 1, 2, Digest(2, 0, 0), 0, 1)


class Session:
    """A task's connection that remembers the bytes of each table."""

    def __init__(self, straight: tuple[str, ...], *, keeps_bytes: bool) -> None:
        self.straight, self.keeps_bytes = straight, keeps_bytes
        self.copied: list[bytes] = []
        self.rows: list[bytes] | None = None
        self.kept: list[bytes] | None = None

    def reads_on(self) -> None:
        pass

    def is_committed(self, _stream_id) -> bool:
        return False

    def copy(self, stream_id, names, rows) -> None:
        assert (stream_id, names) == (STREAM, rows_of({}).schema.names)
        self.copied.append(rows.read())

    def commit(self, line, rows=None, kept=None) -> RangeOutcome:
        assert line == LINE
        self.rows, self.kept = ([piece.read() for piece in each()] if each else None for each in (rows, kept))
        return RangeOutcome(STREAM, RangeEnd.COMMITTED)


def rows_of(reasons: dict[int, str | None]) -> pa.RecordBatch:
    """Returns staged rows: for each offset the reason why it is a reject, or None."""
    offsets, size = list(reasons), len(reasons)
    columns = {
        "_stream": pa.array([STREAM] * size, pa.int32()),
        "_offset": pa.array(offsets, pa.int64()),
        "_ordinal": pa.array([0] * size, pa.int32()),
        "_reason": pa.array(reasons.values(), pa.string()),
        "_timestamp": pa.array([0] * size, pa.timestamp("us", "UTC")),
        **{name: pa.array([str(offset).encode() for offset in offsets], pa.binary()) for name in ("_key", "_value")},
        "_headers": pa.nulls(size, pa.string()),
        "n": pa.array(offsets, pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns)


def binary(rows: pa.RecordBatch) -> list[bytes]:
    return [piece.read() for piece in copy_binary(rows)]


def straight(rows: pa.RecordBatch) -> list[bytes]:
    whole = rows.append_column("_batch", pa.array([BATCH] * rows.num_rows, pa.int64()))
    return binary(whole.select(STRAIGHT))


GOOD, BAD, MIXED = rows_of({1: None, 2: None}), rows_of({3: "bad"}), rows_of({4: None, 5: "worse", 6: None})


def committed(session: Session, *batches: pa.RecordBatch) -> Session:
    made = RangeRows(session, STREAM, BATCH)
    for batch in batches:
        made.take(batch)
    assert made.commit(LINE) == RangeOutcome(STREAM, RangeEnd.COMMITTED)
    return session


@pytest.mark.parametrize("keeps_bytes", [False, True])
def test_good_rows_go_straight_and_rejects_alone_are_copied_before(keeps_bytes):
    session = committed(Session(STRAIGHT, keeps_bytes=keeps_bytes), GOOD, BAD, MIXED)

    assert session.rows == [*straight(GOOD), *straight(rows_of({4: None, 6: None}))]
    assert session.copied == [*binary(BAD), *binary(rows_of({5: "worse"}))]
    if keeps_bytes:
        kept = [*binary(GOOD.select(RAW_NAMES)), *binary(rows_of({4: None, 6: None}).select(RAW_NAMES))]
        assert session.kept == kept
        place = RAW_NAMES.index("_value")
        assert [field_of_row(io.BytesIO(kept[1]), row, place) for row in (1, 2)] == [b"4", b"6"]
    else:
        assert session.kept is None


def test_all_rows_are_copied_before_where_none_may_go_straight():
    session = committed(Session((), keeps_bytes=False), GOOD, BAD, MIXED)

    assert session.rows is None
    assert session.copied == [*binary(GOOD), *binary(BAD), *binary(MIXED)]
