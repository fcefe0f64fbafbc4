"""Decodes Avro record by record: Confluent's wire format, by the schema that the record was written with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

from fastavro import parse_schema, schemaless_reader
from fastavro.read import LOGICAL_READERS

from lockstep.core.errors import BadData
from lockstep.formats.avro_bounds import VALUES_A_BYTE, Walk, is_open, nesting
from lockstep.formats.avro_types import converter, name_of, unchanged
from lockstep.formats.rows import Outcome
from lockstep.formats.schemas import UnknownSchema
from lockstep.formats.values import json_text, taker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockstep.core.columns import Column
    from lockstep.core.definition import Pipeline
    from lockstep.core.formats import Avro
    from lockstep.core.record_limits import RecordLimits
    from lockstep.formats.schemas import Schemas

MAGIC, HEAD = b"\x00", 5
# For these, fastavro's value is the column's to the bit, and needs no conversion.
SURE = frozenset({"boolean", "binary", "date", "timestamp"})
MOST_DIGITS = 4_000  # of a decimal: making digits of bytes costs the square of their number
BITS_A_DIGIT = 3.33
SLACK_BYTES = 9  # so few more are still counted in digits
JSON_A_LEVEL = 4  # levels of a schema's JSON in one of its records, at most


@dataclass(frozen=True, slots=True)
class Writer:
    """A writer's schema, parsed, with the named types in it. If `is_open`, the walk steps over each record first."""

    schema_id: int
    schema: Any
    named: Mapping[str, Any]
    limits: RecordLimits
    is_open: bool

    def read(self, record: bytes) -> Any:
        """Decodes a record behind its head. Raises `ValueError` with the reason if it does not decode."""
        body = BytesIO(record[HEAD:])
        try:
            # The decoder is C, and crashes on values that are nested too deep.
            if self.is_open or VALUES_A_BYTE * len(record) > self.limits.values:
                Walk(record[HEAD:], self.named, self.limits).over(self.schema)
            value = schemaless_reader(body, self.schema, None)
        except Exception as error:  # noqa: BLE001 - bytes that are no Avro make fastavro raise whatever it stumbles over
            raise ValueError(f"does not decode by schema id {self.schema_id}: {_told(error)}") from None
        if body.read(1):
            raise ValueError(f"does not decode by schema id {self.schema_id}: bytes follow the record")
        return value

    @property
    def fields(self) -> dict[str, Any] | None:
        """Returns the fields' types by name, or None if this is no record's schema."""
        if not isinstance(self.schema, dict) or self.schema.get("type") not in {"record", "error"}:
            return None
        return {field["name"]: field["type"] for field in self.schema["fields"]}


class Decoder:
    """The judge of one task's records. It matches each writer's schema with the columns once per id."""

    def __init__(self, pipeline: Pipeline, format_: Avro, schemas: Schemas) -> None:
        self._pipeline = pipeline
        self._format = format_
        self._schemas = schemas
        self._writers: dict[int, Writer] = {}
        self._limits = pipeline.record_limits
        self._refused: dict[int, UnknownSchema] = {}
        self._readers: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
        self._key = next((column for column in format_.columns if column.name == format_.key), None)

    def __call__(self, key: bytes | None, value: bytes | None, _headers: str | None) -> Outcome:
        """Returns the outcome of a record. A deletion without values has a key of plain text."""
        try:
            if value is not None:
                return Outcome(self._values(value))
            if not self._pipeline.takes_tombstones:
                return Outcome(reason="null value")
            return Outcome(self._key_values(key), deleted=True)
        except ValueError as error:
            return Outcome(reason=str(error), deleted=value is None and self._pipeline.takes_tombstones)

    def _values(self, record: bytes) -> dict[str, Any]:
        if len(record) < HEAD or record[:1] != MAGIC:
            raise ValueError("not Confluent's wire format: a zero byte, the schema's id, the record")
        schema_id = int.from_bytes(record[1:HEAD], "big")
        try:
            writer = self._writer(schema_id, self._format.subject)
        except UnknownSchema as unknown:
            raise ValueError(str(unknown)) from None
        if schema_id not in self._readers:
            self._readers[schema_id] = self._reader(writer)
        return self._readers[schema_id](writer.read(record))

    def _writer(self, schema_id: int, subject: str | None = None) -> Writer:
        """Returns the writer of a schema id. An id that the registry refused stays refused for this task alone."""
        if schema_id in self._refused:
            raise self._refused[schema_id]
        if schema_id in self._writers:
            return self._writers[schema_id]
        if len(self._refused) >= self._limits.schemas:
            raise UnknownSchema(
                f"schema id {schema_id} was not asked for: the registry refused {len(self._refused)} others, which is the limit"
            )
        try:
            if subject is not None:
                self._schemas.require_subject(schema_id, subject)
            writer = parsed(schema_id, *self._schemas.writer(schema_id), self._limits)
        except UnknownSchema as unknown:
            self._refused[schema_id] = unknown
            raise
        self._writers[schema_id] = writer
        return writer

    def _reader(self, writer: Writer) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """Returns a function from this writer's record to a row.

        Raises `BadData` if a column cannot take the writer's type.
        """
        fields = writer.fields
        if fields is None:
            raise ValueError(f"schema id {writer.schema_id} is {name_of(writer.schema)}, not a record")
        takers = [
            (column.name, self._taker(writer, column, fields[column.name]))
            for column in self._format.declared
            if column.name in fields
        ]
        rest = self._format.rest
        others = fields.keys() - {column.name for column in self._format.declared} if rest else ()

        def read(record: dict[str, Any]) -> dict[str, Any]:
            row = {name: take(record[name]) for name, take in takers}
            if rest and others:
                try:
                    row[rest] = json_text({name: record[name] for name in fields if name in others})
                except ValueError as error:
                    raise ValueError(f"column {rest}: {error}") from None
            return row

        return read

    def _taker(self, writer: Writer, column: Column, type_: Any) -> Callable[[Any], Any]:
        convert = converter(type_, writer.named, column)
        if convert is None:
            raise BadData(
                f"{self._pipeline.name}: column {column.name} is {column.type}, and schema id {writer.schema_id} writes "
                f"{name_of(type_)}, which would not keep every value",
                next_command=f"change the column's type in the definition, then lockstep run {self._pipeline.name}",
            )
        if convert is unchanged:
            return unchanged if column.type in SURE else taker(column)
        take = taker(column)

        def taken(value: Any) -> Any:
            try:
                ready = None if value is None else convert(value)
            except ValueError as error:
                raise ValueError(f"column {column.name}: {error}") from None
            return take(ready)

        return taken

    def _key_values(self, key: bytes | None) -> dict[str, Any]:
        """Returns the key column of a tombstone with an Avro key, or nothing for a key of plain text."""
        if self._key is None or key is None or len(key) < HEAD or key[:1] != MAGIC:
            return {}
        try:
            writer = self._writer(int.from_bytes(key[1:HEAD], "big"))
        except UnknownSchema:
            return {}
        value, type_, fields = writer.read(key), writer.schema, writer.fields
        if fields is not None:
            if self._key.name not in fields:
                raise ValueError(f"tombstone: its key, schema id {writer.schema_id}, has no field {self._key.name}")
            value, type_ = value[self._key.name], fields[self._key.name]
        if value is None:
            raise ValueError(f"tombstone: its key is not a {self._key.type}")
        return {self._key.name: self._taker(writer, self._key, type_)(value)}


def parsed(schema_id: int, text: str, references: Mapping[str, str], limits: RecordLimits) -> Writer:
    """Parses a schema after its references. Raises `UnknownSchema` if it is no Avro schema."""
    named: dict[str, Any] = {}
    try:
        for each in references.values():
            parse_schema(_shallow(each, limits), named_schemas=named)
        schema = parse_schema(_shallow(text, limits), named_schemas=named)
        schema = named.get(schema, schema) if isinstance(schema, str) else schema
        is_open_ = is_open(schema, named, limits)
    except Exception as error:  # noqa: BLE001 - fastavro raises many kinds for what is no schema
        raise UnknownSchema(f"schema id {schema_id} cannot be read: {_told(error)}") from None
    return Writer(schema_id, schema, named, limits, is_open_)


def _shallow(text: str, limits: RecordLimits) -> Any:
    """Reads the JSON of a schema. Raises `ValueError` if it is nested deeper than its records may be."""
    document = json.loads(text)
    if nesting(document) > JSON_A_LEVEL * limits.depth:
        raise ValueError(f"is nested deeper than {limits.depth} records, which is the limit")
    return document


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


def _as_it_stands(data: Any, _writer_schema: Any = None, _reader_schema: Any = None) -> Any:
    return data


LOGICAL_READERS["bytes-decimal"] = LOGICAL_READERS["fixed-decimal"] = _decimal
LOGICAL_READERS["string-uuid"] = _as_it_stands
