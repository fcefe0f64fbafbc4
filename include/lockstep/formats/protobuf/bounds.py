"""Walks over a message's bytes by its schema. Bounds depth and values, and refuses what a parser would bend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor as Field

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from lockstep.core.pipeline.limits import RecordLimits

VARINT, EIGHT, LENGTH, GROUP_WIRE, END_GROUP_WIRE, FOUR = range(6)
FIXED_WIDTHS = {EIGHT: 8, FOUR: 4}
WIDE_FIXED = (Field.TYPE_FIXED64, Field.TYPE_SFIXED64, Field.TYPE_DOUBLE)
NARROW_FIXED = (Field.TYPE_FIXED32, Field.TYPE_SFIXED32, Field.TYPE_FLOAT)
LENGTHS = (Field.TYPE_STRING, Field.TYPE_BYTES, Field.TYPE_MESSAGE)
TYPE_WORDS = {
    getattr(Field, name): name.removeprefix("TYPE_").lower() for name in dir(Field) if name.startswith("TYPE_")
}
VARINT_END = 1 << 64
INT_BOUND = 1 << 31
# The numbers of a varint that a type holds. An int32 below 0 is written as one of 64 bits.
TYPE_ENDS = {Field.TYPE_BOOL: 2, Field.TYPE_UINT32: 1 << 32, Field.TYPE_SINT32: 1 << 32}
LAST_SHIFT = 63


def wire_type(type_: int) -> int:
    """Returns the wire type of a field's type, where it is not packed."""
    if type_ == Field.TYPE_GROUP:
        return GROUP_WIRE
    return EIGHT if type_ in WIDE_FIXED else FOUR if type_ in NARROW_FIXED else LENGTH if type_ in LENGTHS else VARINT


def reachable(descriptor: Descriptor) -> dict[str, Descriptor]:
    """Returns a message and all messages that it may hold, by full name."""
    found, waiting = {descriptor.full_name: descriptor}, [descriptor]
    while waiting:
        for field in waiting.pop().fields:
            inner = field.message_type
            if inner is not None and inner.full_name not in found:
                found[inner.full_name] = inner
                waiting.append(inner)
    return found


class WireShape:
    """The facts of a message's schema that bound its records.

    `is_bounded` says that no record nests deeper than the limit. `widest` is the most values that one byte may stand for.
    """

    def __init__(self, descriptor: Descriptor, most_depth: int) -> None:
        messages = reachable(descriptor)
        self.name = descriptor.full_name
        self.fields = {name: {field.number: field for field in each.fields} for name, each in messages.items()}
        every = [field for fields in self.fields.values() for field in fields.values()]
        self.widest = 1 + max(len(fields) for fields in self.fields.values())
        self.has_required = any(field.is_required for field in every)
        self.has_groups = any(field.type == Field.TYPE_GROUP for field in every)
        self.is_bounded = self._is_bounded(most_depth)

    def _is_bounded(self, most_depth: int) -> bool:
        """Says if the messages end within the depth: takes those away that hold no other, level by level."""
        holds = {
            name: {field.message_type.full_name for field in fields.values() if field.message_type is not None}
            for name, fields in self.fields.items()
        }
        for _ in range(most_depth):
            leaves = {name for name, inner in holds.items() if not inner}
            if self.name in leaves:
                return True
            if not leaves:
                return False
            holds = {name: inner - leaves for name, inner in holds.items() if name not in leaves}
        return False


class WireWalk:
    """A walk over one record's bytes. Raises `ValueError` at a limit, and where the bytes are not what the schema says."""

    def __init__(self, body: bytes, shape: WireShape, limits: RecordLimits) -> None:
        self._body, self._shape, self._limits = body, shape, limits
        self._at, self._values = 0, 1

    def over_record(self) -> None:
        """Steps over the whole record."""
        self._over(self._shape.name, len(self._body), 1)

    def _over(self, message: str, end: int, depth: int) -> None:
        if depth > self._limits.depth:
            raise ValueError(f"is nested deeper than {self._limits.depth}, which is the limit")
        fields = self._shape.fields[message]
        self._count(len(fields))
        while self._at < end:
            tag = self._varint(end)
            number, wire = tag >> 3, tag & 7
            if not 0 < tag >> 3 < 1 << 29:
                raise ValueError(f"field number {number}")
            field = fields.get(number)
            if field is None:
                self._skip(f"field {number}", wire, end)
            elif wire == LENGTH and field.is_repeated and field.type not in LENGTHS:
                self._packed(field, self._length(end))
            elif wire != wire_type(field.type) or wire == GROUP_WIRE:
                found = "is a group" if wire in {GROUP_WIRE, END_GROUP_WIRE} else f"has wire type {wire}"
                raise ValueError(f"field {field.name} {found}, and the schema says {TYPE_WORDS[field.type]}")
            elif field.type == Field.TYPE_MESSAGE:
                self._count(1)
                self._over(field.message_type.full_name, self._length(end), depth + 1)
            else:
                self._scalar(field, wire, end)

    def _packed(self, field: Field, end: int) -> None:
        while self._at < end:
            self._scalar(field, wire_type(field.type), end)

    def _scalar(self, field: Field, wire: int, end: int) -> None:
        self._count(1 if field.is_repeated else 0)
        if wire == VARINT:
            self._fits(field, self._varint(end))
        else:
            self._skip(f"field {field.name}", wire, end)

    def _skip(self, what: str, wire: int, end: int) -> None:
        if wire == VARINT:
            self._varint(end)
        elif wire == LENGTH:
            self._at = self._length(end)
        elif wire in FIXED_WIDTHS:
            self._at = self._until(FIXED_WIDTHS[wire], end)
        else:
            raise ValueError(
                f"{what} {'is a group' if wire in {GROUP_WIRE, END_GROUP_WIRE} else f'has wire type {wire}'}"
            )

    def _fits(self, field: Field, value: int) -> None:
        if field.type in {Field.TYPE_INT32, Field.TYPE_ENUM}:
            number = value - VARINT_END if value >= VARINT_END >> 1 else value
            fits = -INT_BOUND <= number < INT_BOUND
            if fits and field.enum_type is not None and field.enum_type.is_closed:
                fits = number in field.enum_type.values_by_number
        else:
            number, fits = value, value < TYPE_ENDS.get(field.type, VARINT_END)
        if not fits:
            what = field.enum_type.full_name if field.enum_type is not None else TYPE_WORDS[field.type]
            raise ValueError(f"field {field.name} has the number {number}, which is no {what}")

    def _count(self, more: int) -> None:
        self._values += more
        if self._values > self._limits.values:
            raise ValueError(f"holds more than {self._limits.values} values, which is the limit")

    def _length(self, end: int) -> int:
        return self._until(self._varint(end), end)

    def _until(self, size: int, end: int) -> int:
        if size > end - self._at:
            raise ValueError(f"a value of {size} bytes where {end - self._at} are left")
        return self._at + size

    def _varint(self, end: int) -> int:
        value: Any = 0
        for shift in range(0, LAST_SHIFT + 1, 7):
            if self._at >= end:
                break
            byte = self._body[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the sign that it is the last byte
                if value >= VARINT_END:
                    raise ValueError("a number of more than 64 bits")
                return int(value)
        raise ValueError("the bytes end within a number" if self._at >= end else "a number of more than 64 bits")
