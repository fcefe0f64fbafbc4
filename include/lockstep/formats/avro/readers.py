"""Reads one field of many Avro records as an Arrow array. Refuses records whose value only the decoder may judge."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.text import is_utf8_bytes
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.formats.avro.cursors import Cursors, Places
    from lockstep.formats.avro.flat import FlatField

    Halves = np.ndarray[Any, np.dtype[np.int64]]
    Read = Callable[[Cursors, Places, FlatField], pa.Array]

FIRST_TICK = datetime(1970, 1, 1, tzinfo=UTC)
ONE_MICROSECOND = timedelta(microseconds=1)
END_OF_9999 = datetime.max.replace(tzinfo=UTC)
MICRO_BOUNDS = (
    (datetime.min.replace(tzinfo=UTC) - FIRST_TICK) // ONE_MICROSECOND,
    (END_OF_9999 - FIRST_TICK) // ONE_MICROSECOND,
)
DAY_BOUNDS = date.min.toordinal() - FIRST_TICK.toordinal(), date.max.toordinal() - FIRST_TICK.toordinal()
INT_BOUNDS = -(2**31), 2**31 - 1
DIGITS_OF_ARROW = 38  # of a decimal in Arrow


def read_field(cursors: Cursors, field: FlatField) -> pa.Array:
    """Reads the field of every record, in the type of its column. A refused record has any value."""
    rows = cursors.rows()
    if field.value_branch is None:
        return _typed(READERS[field.kind](cursors, rows, field), field)
    branch = cursors.numbers(rows)
    cursors.refuse(rows, (branch != field.value_branch) & (branch != 1 - field.value_branch))
    has_value = branch == field.value_branch
    array = _typed(READERS[field.kind](cursors, rows[has_value], field), field)
    if has_value.all():
        return array
    return array.take(pa.array(np.cumsum(has_value) - 1, mask=~has_value))


def _typed(array: pa.Array, field: FlatField) -> pa.Array:
    """Converts to the column's type, which holds each value of the field."""
    return array if field.column is None else array.cast(arrow_type(field.column))


def _bounded(cursors: Cursors, rows: Places, bounds: tuple[int, int]) -> Places:
    """Reads numbers, and refuses those outside. A refused row has 0."""
    numbers = cursors.numbers(rows)
    bad = (numbers < bounds[0]) | (numbers > bounds[1])
    if not bad.any():
        return numbers
    cursors.refuse(rows, bad)
    return np.where(bad, 0, numbers)


def _null(_cursors: Cursors, rows: Places, _field: FlatField) -> pa.Array:
    return pa.nulls(len(rows))


def _boolean(cursors: Cursors, rows: Places, _field: FlatField) -> pa.Array:
    octets = cursors.fixed(rows, 1)[:, 0]
    cursors.refuse(rows, octets > 1)
    return pa.array(octets == 1)


def _int(cursors: Cursors, rows: Places, _field: FlatField) -> pa.Array:
    return pa.array(_bounded(cursors, rows, INT_BOUNDS).astype(np.int32))


def _long(cursors: Cursors, rows: Places, _field: FlatField) -> pa.Array:
    return pa.array(cursors.numbers(rows))


def _real(size: int) -> Read:
    def real(cursors: Cursors, rows: Places, _field: FlatField) -> pa.Array:
        octets = np.ascontiguousarray(cursors.fixed(rows, size))
        return pa.array(octets.view(f"<f{size}")[:, 0] if len(rows) else np.zeros(0, f"<f{size}"))

    return real


def _bytes(cursors: Cursors, rows: Places, _field: FlatField) -> pa.Array:
    return cursors.texts(rows, cursors.numbers(rows))


def _fixed(cursors: Cursors, rows: Places, field: FlatField) -> pa.Array:
    return cursors.texts(rows, np.full(len(rows), field.size))


def _string(cursors: Cursors, rows: Places, field: FlatField) -> pa.Array:
    return as_text(cursors, rows, _bytes(cursors, rows, field))


def as_text(cursors: Cursors, rows: Places, array: pa.Array) -> pa.Array:
    """Returns bytes that were read as text. Refuses those that are no UTF-8, or hold NUL, which Postgres does not."""
    _, offsets, data = array.buffers()
    if data is not None and data.size:
        nuls = np.flatnonzero(np.frombuffer(data, np.uint8) == 0)
        bad = np.zeros(len(rows), np.bool_)
        bad[np.searchsorted(np.frombuffer(offsets, np.int32)[1:], nuls, "right")] = True
        cursors.refuse(rows, bad)
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        bad = np.array([not is_utf8_bytes(value) for value in array.to_pylist()])
        cursors.refuse(rows, bad)
        return pc.if_else(pa.array(bad), pa.scalar(b""), array).cast(pa.string())


def _enum(cursors: Cursors, rows: Places, field: FlatField) -> pa.Array:
    if not field.symbols:
        cursors.refuse(rows, np.ones(len(rows), np.bool_))
        return pa.nulls(len(rows), pa.string())
    places = _bounded(cursors, rows, (0, len(field.symbols) - 1))
    return pa.array(field.symbols, pa.string()).take(pa.array(places))


def _date(cursors: Cursors, rows: Places, _field: FlatField) -> pa.Array:
    return pa.array(_bounded(cursors, rows, DAY_BOUNDS).astype(np.int32)).cast(pa.date32())


def _timestamp(ticks: int) -> Read:
    """Returns a reader of timestamps of so many microseconds a tick."""
    bounds = -(-MICRO_BOUNDS[0] // ticks), MICRO_BOUNDS[1] // ticks

    def timestamp(cursors: Cursors, rows: Places, _field: FlatField) -> pa.Array:
        return pa.array(_bounded(cursors, rows, bounds) * ticks).cast(pa.timestamp("us", "UTC"))

    return timestamp


def _decimal(cursors: Cursors, rows: Places, field: FlatField) -> pa.Array:
    """Reads whole numbers of the field's digits, and puts the point where its schema says."""
    sizes = cursors.numbers(rows) if field.kind.startswith("bytes") else np.full(len(rows), field.size)
    halves = np.stack(cursors.big_endian(rows, sizes)[::-1], axis=1)
    least, most = (
        Decimal((sign, (9,) * min(field.precision, DIGITS_OF_ARROW), 0)) for sign in (1, 0)
    )  # -most would round
    whole = _of_halves(halves, pa.decimal128(DIGITS_OF_ARROW, 0))
    within = pc.and_(pc.less_equal(whole, most), pc.greater_equal(whole, least)).to_numpy(zero_copy_only=False)
    cursors.refuse(rows, ~within)
    if field.column is None:
        return whole
    return _of_halves(np.where(within[:, None], halves, 0), pa.decimal128(field.precision, field.scale))


def _of_halves(halves: Halves, type_: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(type_, len(halves), [None, pa.py_buffer(halves)])


READERS: dict[str, Read] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _real(4),
    "double": _real(8),
    "string": _string,
    "string uuid": _string,
    "bytes": _bytes,
    "fixed": _fixed,
    "enum": _enum,
    "int date": _date,
    "long timestamp-millis": _timestamp(1_000),
    "long timestamp-micros": _timestamp(1),
    "bytes decimal": _decimal,
    "fixed decimal": _decimal,
}
