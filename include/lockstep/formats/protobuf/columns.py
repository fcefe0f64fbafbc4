"""Decodes many Protobuf records at once by columns, if the result is what the decoder makes of each alone.

Takes flat messages as serializers write them: each field once at most, in the order of the numbers. Leaves all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lockstep.formats.avro.heads import FlatColumns
from lockstep.formats.avro.readers import as_text
from lockstep.formats.avro.schemas import PROTOBUF, schemas
from lockstep.formats.protobuf.bounds import TYPE_WORDS, wire_type
from lockstep.formats.protobuf.descriptors import FIRST, MessageWriters
from lockstep.formats.protobuf.values import default_of
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockstep.core.formats.registered import Protobuf
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry
    from lockstep.formats.avro.cursors import Cursors, Flags, Places
    from lockstep.formats.protobuf.messages import MessageType

    Read = Callable[[Cursors, Places], pa.Array]

# A field's type → the columns that take each of its values as it stands.
FLAT_COLUMNS: dict[str, tuple[str, ...]] = {
    "bool": ("boolean",),
    "string": ("string",),
    "bytes": ("binary",),
    "float": ("float", "double"),
    "double": ("double",),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), ("int", "bigint")),
    **dict.fromkeys(("uint32", "fixed32", "int64", "sint64", "sfixed64"), ("bigint",)),
    "uint64": (),
    "fixed64": (),
}


@dataclass(frozen=True, slots=True)
class MessageField:
    """A field of a flat message, with the bytes of its tag. `column` is None for a field that no column takes."""

    tag: bytes
    kind: str
    column: Column | None
    default: Any


class ProtobufColumns(FlatColumns[MessageField]):
    """The decoder by columns of one task's records. It takes those of a schema's first message."""

    behind = b"\0"  # the index of that message

    def __init__(self, pipeline: Pipeline, format_: Protobuf, registry: Registry, needed: frozenset[str]) -> None:
        super().__init__(format_.columns, needed)
        self._format = format_
        self._limits = pipeline.record_limits
        self._writers = MessageWriters(schemas(registry, PROTOBUF), pipeline.record_limits)

    def fields_of(self, schema_id: int) -> Sequence[MessageField] | None:
        """Returns the fields of a schema's first message by number, or None if one is not read by columns."""
        message = self._writers.of_id(schema_id, self._format.subject).message(FIRST, self._format.message)
        return message_fields(message, self._format, self._limits.values)

    def read(self, cursors: Cursors, field: MessageField) -> pa.Array:
        """Reads a field of each record, or has its default."""
        rows = cursors.tagged(field.tag)
        array = WIRE_READERS[field.kind](cursors, rows)
        if field.column is None:
            return array
        return _spread(array.cast(arrow_type(field.column)), rows, len(cursors.good), field.default)


def message_fields(message: MessageType, format_: Protobuf, most_values: int) -> tuple[MessageField, ...] | None:
    """Returns a message's fields by number, or None if one of them is not read by columns."""
    columns = {column.name: column for column in format_.columns}
    fields = sorted(message.fields.values(), key=lambda field: field.number)
    if format_.rest or len(fields) >= most_values:
        return None
    found = []
    for field in fields:
        kind, column = TYPE_WORDS[field.type], columns.get(field.name)
        oneof = field.containing_oneof
        if (
            field.is_repeated
            or field.is_required
            or kind not in FLAT_COLUMNS
            or (oneof is not None and len(oneof.fields) > 1)
            or (column is not None and column.type not in FLAT_COLUMNS[kind])
        ):
            return None
        found.append(MessageField(_varint(field.number << 3 | wire_type(field.type)), kind, column, default_of(field)))
    return tuple(found)


def _spread(array: pa.Array, rows: Places, count: int, default: Any) -> pa.Array:
    """Returns a value for each of `count` records: that of its row, or the default."""
    if len(rows) == count:
        return array
    if default is not None and not pa.types.is_string(array.type) and not pa.types.is_binary(array.type):
        values = array.to_numpy(zero_copy_only=False)
        each = np.full(count, default, values.dtype)
        each[rows] = values
        return pa.array(each, array.type)
    at = np.zeros(count, np.int64)
    at[rows] = np.arange(len(rows))
    is_there = np.zeros(count, np.bool_)
    is_there[rows] = True
    spread = array.take(pa.array(at, mask=~is_there))
    return spread if default is None else spread.fill_null(pa.scalar(default, array.type))


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits to a byte
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def _below(cursors: Cursors, rows: Places, end: int) -> np.ndarray:
    """Reads numbers, and refuses those that are not below the end."""
    values = cursors.varints(rows)
    cursors.refuse(rows, values >= np.uint64(end))
    return values


def _bool(cursors: Cursors, rows: Places) -> pa.Array:
    """Reads a byte. Refuses a bool of several, which the decoder takes."""
    octets = cursors.fixed(rows, 1)[:, 0]
    cursors.refuse(rows, octets > 1)
    return pa.array(octets == 1)


def _int32(cursors: Cursors, rows: Places) -> pa.Array:
    values = cursors.varints(rows).view(np.int64)
    bad: Flags = (values < -(2**31)) | (values >= 2**31)
    cursors.refuse(rows, bad)
    return pa.array(np.where(bad, 0, values))


def _sint32(cursors: Cursors, rows: Places) -> pa.Array:
    values = _below(cursors, rows, 1 << 32) & np.uint64((1 << 32) - 1)
    return pa.array((values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64))


def _lengths(cursors: Cursors, rows: Places) -> Places:
    sizes: Places = np.minimum(cursors.varints(rows), np.uint64(1 << 31)).view(np.int64)
    return sizes


def _fixed(type_: str) -> Read:
    size = np.dtype(type_).itemsize

    def fixed(cursors: Cursors, rows: Places) -> pa.Array:
        octets = np.ascontiguousarray(cursors.fixed(rows, size))
        return pa.array(octets.view(type_)[:, 0] if len(rows) else np.zeros(0, type_))

    return fixed


def _bytes(cursors: Cursors, rows: Places) -> pa.Array:
    return cursors.texts(rows, _lengths(cursors, rows))


WIRE_READERS: dict[str, Read] = {
    "bool": _bool,
    "int32": _int32,
    "sint32": _sint32,
    "uint32": lambda cursors, rows: pa.array(
        (_below(cursors, rows, 1 << 32) & np.uint64((1 << 32) - 1)).view(np.int64)
    ),
    "int64": lambda cursors, rows: pa.array(cursors.varints(rows).view(np.int64)),
    "sint64": lambda cursors, rows: pa.array(cursors.numbers(rows)),
    "uint64": lambda cursors, rows: pa.array(cursors.varints(rows)),
    "fixed32": _fixed("<u4"),
    "sfixed32": _fixed("<i4"),
    "fixed64": _fixed("<u8"),
    "sfixed64": _fixed("<i8"),
    "float": _fixed("<f4"),
    "double": _fixed("<f8"),
    "string": lambda cursors, rows: as_text(cursors, rows, _bytes(cursors, rows)),
    "bytes": _bytes,
}
