"""Writes COPY's binary format directly from Arrow's columns. No value becomes a Python object or text."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

    Fields = list[tuple[str, Any]]  # numpy types, most significant byte first, each with its values or the one value

COPY_HEAD, COPY_TAIL = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
NULL = -1  # a value's length where there is none
LENGTH_TYPE = ">i4"
EPOCH_DAYS, EPOCH_MICROSECONDS = 10_957, 946_684_800_000_000  # from 1970 to 2000, where Postgres begins to count
# Postgres refuses these. Anything before them would be counted to a moment of the far future, or be minus infinity.
FIRST_DAY, FIRST_MICROSECOND = np.int32(EPOCH_DAYS + 1 - 2**31), np.int64(EPOCH_MICROSECONDS + 1 - 2**63)
WORD_DIGITS = 18  # so many always fit into 64 bits
GROUP = 10_000  # what one digit of a numeric counts to
GROUP_DIGITS = 4
NEGATIVE = 0x4000
MOST_COPIED_BYTES = 2**28  # bytes of columns


def copy_binary(batch: pa.RecordBatch) -> Iterator[io.BytesIO]:
    """Yields the rows in one piece or more, as COPY ... WITH (FORMAT BINARY) reads them, for columns of their types.

    Strings are text, decimals numeric, timestamps timestamptz. The other types have equal names.
    """
    if batch.nbytes > MOST_COPIED_BYTES and batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from copy_binary(batch.slice(0, half))
        yield from copy_binary(batch.slice(half))
    elif batch.num_rows:
        rows = pc.binary_join_element_wise(*_parts(batch), b"")
        _, ends, data = rows.buffers()
        begin, end = np.frombuffer(ends, np.int32)[[rows.offset, rows.offset + len(rows)]]
        file = io.BytesIO()
        file.write(COPY_HEAD)
        file.write(memoryview(data)[begin:end])
        file.write(COPY_TAIL)
        file.seek(0)
        yield file


def field_of_row(piece: BinaryIO, row: int, place: int) -> bytes:
    """Returns the field at this place of a piece's row. Rows are numbered from 1 on, as the server's errors do."""
    piece.seek(len(COPY_HEAD))
    fields: list[bytes] = []
    for _ in range(row):
        lengths = range(int.from_bytes(piece.read(2)))
        fields = [piece.read(max(0, int.from_bytes(piece.read(4), signed=True))) for _ in lengths]
    return fields[place]


def _parts(batch: pa.RecordBatch) -> Iterator[pa.Array]:
    """Yields the adjacent parts of each row.

    Fields of fixed size become one part, unless a text or a null divides them.
    """
    rows = batch.num_rows
    fields: Fields = [(">i2", batch.num_columns)]
    for column in batch.columns:
        if column.null_count == rows:
            fields.append((LENGTH_TYPE, NULL))
        elif _is_text(column.type):
            fields.append((LENGTH_TYPE, pc.binary_length(column).fill_null(NULL).to_numpy(zero_copy_only=False)))
            yield _packed(fields, rows)
            fields = []
            yield column.cast(pa.binary()).fill_null(b"")
        elif column.null_count:
            if fields:
                yield _packed(fields, rows)
                fields = []
            null = pa.scalar(NULL.to_bytes(4, signed=True), pa.binary())
            yield pc.if_else(column.is_valid(), _packed(_fields(_as_valid(column)), rows), null)
        else:
            fields += _fields(column)
    if fields:
        yield _packed(fields, rows)


def _packed(fields: Fields, rows: int) -> pa.Array:
    """Packs each row's fields one behind the other, as `binary`."""
    made = np.empty(rows, np.dtype([(f"f{place}", type_) for place, (type_, _) in enumerate(fields)]))
    for place, (_, values) in enumerate(fields):
        made[f"f{place}"] = values
    ends = np.arange(rows + 1, dtype=np.int32) * np.int32(made.itemsize)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(ends), pa.py_buffer(made)])


def _fields(column: pa.Array) -> Fields:
    """Returns a column without nulls as its length and its values."""
    type_ = column.type
    if pa.types.is_decimal128(type_):
        return _numeric(column)
    if pa.types.is_boolean(type_):
        return [(LENGTH_TYPE, 1), ("i1", column.cast(pa.int8()).to_numpy())]
    if pa.types.is_date32(type_):
        return [(LENGTH_TYPE, 4), (">i4", np.maximum(column.cast(pa.int32()).to_numpy(), FIRST_DAY) - EPOCH_DAYS)]
    if pa.types.is_timestamp(type_):
        microseconds = column.cast(pa.timestamp("us", type_.tz), safe=False).cast(pa.int64()).to_numpy()
        return [(LENGTH_TYPE, 8), (">i8", np.maximum(microseconds, FIRST_MICROSECOND) - EPOCH_MICROSECONDS)]
    if pa.types.is_signed_integer(type_) or pa.types.is_floating(type_):
        values = column.to_numpy()
        return [(LENGTH_TYPE, values.itemsize), (values.dtype.newbyteorder(">").str, values)]
    raise TypeError(f"{type_} has no binary form here")


def _numeric(column: pa.Array) -> Fields:
    """Returns digits of base 10,000 on both sides of the point. Postgres removes the zeros at either end."""
    precision, scale = column.type.precision, column.type.scale
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    values: Any = words[0::2]
    if precision > WORD_DIGITS:
        values = words[1::2].astype(object) * 2**64 + values.view(np.uint64).astype(object)
    size = abs(values)
    whole, part = size // 10**scale, size % 10**scale
    before, behind = -(-(precision - scale) // GROUP_DIGITS), -(-scale // GROUP_DIGITS)
    digits = [whole // GROUP**place % GROUP for place in reversed(range(before))]
    for place in range(1, behind + 1):
        left = scale - GROUP_DIGITS * place
        digits.append(part // 10**left % GROUP if left >= 0 else part % 10 ** (left + GROUP_DIGITS) * 10**-left)
    sign = np.where(values < 0, NEGATIVE, 0)
    shape = [(">i2", before + behind), (">i2", before - 1), (">u2", sign), (">i2", scale)]
    return [(LENGTH_TYPE, 2 * (len(shape) + len(digits))), *shape, *((">i2", digit) for digit in digits)]


def _as_valid(column: pa.Array) -> pa.Array:
    """Returns the column without its null mask. Nulls have arbitrary values, until the nulls replace them."""
    return pa.Array.from_buffers(column.type, len(column), [None, *column.buffers()[1:]], offset=column.offset)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_binary(type_))
