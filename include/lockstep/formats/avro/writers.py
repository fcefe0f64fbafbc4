"""Reads Avro in Confluent's wire format, each record by the schema that it was written with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.read import LOGICAL_READERS

from lockstep.core.formats.registered import HEAD_BYTES
from lockstep.formats.avro.bounds import VALUES_A_BYTE, Walk, is_open, nesting
from lockstep.formats.avro.schemas import UnknownSchema
from lockstep.formats.registered import WritersById

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import time

    from lockstep.core.pipeline.limits import RecordLimits

MOST_DIGITS = 4_000  # of a decimal: making digits of bytes costs the square of their number
BITS_A_DIGIT = 3.33
MILLIS_A_DAY = 86_400_000
SLACK_BYTES = 9  # so few more are still counted in digits
JSON_A_LEVEL = 4  # levels of a schema's JSON in one of its records, at most


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """A writer's schema, parsed, with the named types in it. If `is_open`, the walk steps over each record first."""

    schema_id: int
    schema: Any
    named: Mapping[str, Any]
    limits: RecordLimits
    is_open: bool

    def read(self, record: bytes) -> Any:
        """Decodes a record behind its head. Raises `ValueError` with the reason if it does not decode."""
        body = BytesIO(record[HEAD_BYTES:])
        try:
            # The decoder is C, and crashes on values that are nested too deep.
            walked = self.is_open or VALUES_A_BYTE * len(record) > self.limits.values
            if walked:
                self._walk(record)
            value = schemaless_reader(body, self.schema, None)
            if not walked and not self._is_written(value, record):
                self._walk(record)
        except Exception as error:  # noqa: BLE001 - bytes that are no Avro make fastavro raise whatever it stumbles over
            raise ValueError(f"does not decode by schema id {self.schema_id}: {_told(error)}") from None
        if body.read(1):
            raise ValueError(f"does not decode by schema id {self.schema_id}: bytes follow the record")
        return value

    def _is_written(self, value: Any, record: bytes) -> bool:
        """Returns True if the value is written as this record. The decoder is lenient: it cuts numbers, and counts back.

        A value that it would write again byte for byte holds nothing of that kind. All others are walked.
        """
        out = BytesIO()
        try:
            schemaless_writer(out, self.schema, value)
        except Exception:  # noqa: BLE001 - a value that the writer does not take is looked at, as every other
            return False
        return out.getvalue() == record[HEAD_BYTES:]

    def _walk(self, record: bytes) -> None:
        Walk(record[HEAD_BYTES:], self.named, self.limits).over(self.schema)

    @property
    def fields(self) -> dict[str, Any] | None:
        """Returns the fields' types by name, or None if this is no record's schema."""
        if not isinstance(self.schema, dict) or self.schema.get("type") not in {"record", "error"}:
            return None
        return {field["name"]: field["type"] for field in self.schema["fields"]}


class Writers(WritersById[WriterSchema]):
    """The writers of one task's records by schema id."""

    def parse(self, schema_id: int) -> WriterSchema:
        """Returns the writer's schema of an id. Raises `UnknownSchema` if it is no Avro schema."""
        return parsed(schema_id, *self._schemas.writer(schema_id), self._limits)


def parsed(schema_id: int, text: str, references: Mapping[str, str], limits: RecordLimits) -> WriterSchema:
    """Parses a schema after its references. Raises `UnknownSchema` if it is no Avro schema."""
    named: dict[str, Any] = {}
    try:
        for each in references.values():
            parse_schema(_shallow(each, limits), named_schemas=named)
        schema = parse_schema(_shallow(text, limits), named_schemas=named)
        schema = named.get(schema, schema) if isinstance(schema, str) else schema
        _require_sound([schema, *named.values()])
        is_open_ = is_open(schema, named, limits)
    except Exception as error:  # noqa: BLE001 - fastavro raises many kinds for what is no schema
        raise UnknownSchema(f"schema id {schema_id} cannot be read: {_told(error)}") from None
    return WriterSchema(schema_id, schema, named, limits, is_open_)


def _require_sound(types: Iterable[Any]) -> None:
    """Raises `ValueError` for a union within a union, or a name that is no text. The parser lets both pass."""
    waiting = [(each, False) for each in types]
    while waiting:
        type_, is_branch = waiting.pop()
        if isinstance(type_, list):
            if is_branch:
                raise ValueError("a union within a union")
            waiting += [(each, True) for each in type_]
        elif isinstance(type_, dict):
            waiting += [
                (type_[name], name == "type" and is_branch) for name in ("type", "items", "values") if name in type_
            ]
            for field in type_.get("fields", ()):
                if not isinstance(field["name"], str):
                    raise ValueError("a field's name is no text")  # noqa: TRY004 - a reason
                waiting.append((field["type"], False))


def _shallow(text: str, limits: RecordLimits) -> Any:
    """Reads the JSON of a schema. Raises `ValueError` if it is nested deeper than its records may be."""
    document = json.loads(text)
    if nesting(document) > JSON_A_LEVEL * limits.depth:
        raise ValueError(f"is nested deeper than {limits.depth} records, which is the limit")
    return _without_loose_decimals(document)


def _without_loose_decimals(part: Any) -> Any:
    """Returns a schema in which a type without a valid logical type is itself alone, as Avro's specification has it."""
    if isinstance(part, list):
        return [_without_loose_decimals(each) for each in part]
    if not isinstance(part, dict):
        return part
    logical, sizes = part.get("logicalType"), (part.get("precision"), part.get("scale", 0))
    is_loose = not isinstance(logical, str) or (logical == "decimal" and not all(type(each) is int for each in sizes))
    return {
        name: _without_loose_decimals(each)
        for name, each in part.items()
        if not (is_loose and name in {"logicalType", "precision", "scale"})
    }


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _decimal(data: bytes, writer_schema: Any = None, _reader_schema: Any = None) -> Decimal:
    """Reads a decimal to the digit. fastavro's own reader rounds digits beyond its schema's precision."""
    precision = writer_schema["precision"]
    # The length before the number: to make one of 200 kB takes half a minute.
    needed = len(data.lstrip(b"\xff" if data[:1] >= b"\x80" else b"\x00"))
    if needed > min(precision, MOST_DIGITS) * BITS_A_DIGIT / 8 + SLACK_BYTES:
        raise ValueError(f"{needed} bytes in a decimal of {precision} digits")
    sign, digits, _ = Decimal(int.from_bytes(data, "big", signed=True)).as_tuple()
    if len(digits) > precision:
        raise ValueError(f"{len(digits)} digits in a decimal of {precision}")
    return Decimal((sign, digits, -writer_schema.get("scale", 0)))


def _time_of_day(read: Callable[..., time], parts: int) -> Callable[..., time]:
    """Returns a reader of times of day of so many parts.

    That of fastavro takes a time below zero for the parts of a second.
    """

    def time_of_day(data: int, writer_schema: Any = None, reader_schema: Any = None) -> time:
        if not 0 <= data < parts:
            raise ValueError(f"{data} is no time of a day")
        return read(data, writer_schema, reader_schema)

    return time_of_day


def _as_it_stands(data: Any, _writer_schema: Any = None, _reader_schema: Any = None) -> Any:
    return data


LOGICAL_READERS["bytes-decimal"] = LOGICAL_READERS["fixed-decimal"] = _decimal
LOGICAL_READERS["string-uuid"] = _as_it_stands
for _kind, _parts in (("int-time-millis", MILLIS_A_DAY), ("long-time-micros", 1_000 * MILLIS_A_DAY)):
    LOGICAL_READERS[_kind] = _time_of_day(LOGICAL_READERS[_kind], _parts)
