"""Decodes Protobuf record by record into the declared columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadData
from lockstep.core.formats.registered import HEAD_BYTES
from lockstep.core.pipeline.columns import NUL
from lockstep.formats.avro.recent import Recent
from lockstep.formats.avro.schemas import PROTOBUF, UnknownSchema, schemas
from lockstep.formats.protobuf.descriptors import MessageWriters, split_record
from lockstep.formats.protobuf.types import field_type_name, fit, rest_of, sure_field, text_field
from lockstep.formats.registered import RegisteredDecoder, is_wire_format
from lockstep.formats.values import json_text, taker

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.formats.registered import Protobuf
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry
    from lockstep.formats.avro.schemas import Schemas
    from lockstep.formats.protobuf.messages import MessageType

    Take = Callable[[dict[int, Any]], Any]


def protobuf_decoder(pipeline: Pipeline, format_: Protobuf, registry: Registry) -> MessageDecoder:
    """Returns the judge of one task's records."""
    return MessageDecoder(pipeline, format_, schemas(registry, PROTOBUF))


class MessageDecoder(RegisteredDecoder):
    """The judge of one task's records. It matches each writer's message with the columns once per id."""

    def __init__(self, pipeline: Pipeline, format_: Protobuf, known: Schemas) -> None:
        super().__init__(pipeline, format_)
        self._format = format_
        self._writers = MessageWriters(known, pipeline.record_limits)
        self._readers: Recent[Callable[[dict[int, Any]], dict[str, Any]]] = Recent()

    def values(self, record: bytes) -> dict[str, Any]:
        """Returns the row of a record, by the message that its indexes name."""
        writer = self._writers.of_record(record, self._format.subject)
        indexes, body = split_record(record)
        message = writer.message(indexes, self._format.message)
        known = (message.schema_id, message.name)
        if known not in self._readers:
            self._readers[known] = self._reader(message)
        return self._readers[known](message.read(body))

    def key_values(self, key: bytes | None) -> dict[str, Any]:
        """Returns the key column of a tombstone with a Protobuf key, or nothing for a key of plain text."""
        if self._key is None or key is None or not is_wire_format(key):
            return {}
        try:
            writer = self._writers.of_id(int.from_bytes(key[1:HEAD_BYTES], "big"))
        except UnknownSchema:
            return {}
        indexes, body = split_record(key)
        message = writer.message(indexes)
        field = message.fields.get(self._key.name)
        if field is None:
            raise ValueError(f"tombstone: its key, schema id {message.schema_id}, has no field {self._key.name}")
        value = self._taker(message, self._key)(message.read(body))
        if value is None:
            raise ValueError(f"tombstone: its key is not a {self._key.type}")
        return {self._key.name: value}

    def _reader(self, message: MessageType) -> Callable[[dict[int, Any]], dict[str, Any]]:
        """Returns a function from the message's set fields to a row.

        Raises `BadData` if a column cannot take the writer's type.
        """
        named = {column.name for column in self._format.declared}
        takers = [
            (column.name, self._taker(message, column))
            for column in self._format.declared
            if column.name in message.fields
        ]
        rest = self._format.rest
        others = [field for name, field in message.fields.items() if name not in named] if rest else []
        for field in others:
            if rest_of(field) is None:
                raise self._misfit(message, f"column {rest} is string", field)
        gathered = [(field.name, rest_of(field)) for field in others]

        def read(found: dict[int, Any]) -> dict[str, Any]:
            row = {name: take(found) for name, take in takers}
            if rest and gathered:
                try:
                    row[rest] = json_text({name: told(found) for name, told in gathered if told})
                except ValueError as error:
                    raise ValueError(f"column {rest}: {error}") from None
            return row

        return read

    def _taker(self, message: MessageType, column: Column) -> Take:
        field = message.fields[column.name]
        convert = fit(field, column)
        if convert is None:
            raise self._misfit(message, f"column {column.name} is {column.type}", field)
        if (sure := sure_field(field, column)) is not None:
            number, default = sure
            return lambda found: found.get(number, default)
        take = taker(column)

        def taken(found: dict[int, Any]) -> Any:
            try:
                ready = convert(found)
            except ValueError as error:
                raise ValueError(f"column {column.name}: {error}") from None
            return take(ready)

        return taken if (text := text_field(field, column)) is None else _quick_text(*text, taken)

    def _misfit(self, message: MessageType, what: str, field: Any) -> BadData:
        why = (
            "would not keep every value" if rest_of(field) else "holds google.protobuf.Any, whose type no schema names"
        )
        return BadData(
            f"{self._pipeline.name}: {what}, and schema id {message.schema_id} writes {field_type_name(field)}, which {why}",
            next_command=f"change the column's type in the definition, then lockstep run {self._pipeline.name}",
        )


def _quick_text(number: int, default: Any, slow: Take) -> Take:
    """Returns a function to a field's text, which looks twice only at one that is not plain."""

    def text(found: dict[int, Any]) -> Any:
        value = found.get(number, default)
        return value if type(value) is str and value.isascii() and NUL not in value else slow(found)

    return text
