"""Decodes Avro record by record into the declared columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadData
from lockstep.core.formats.registered import HEAD_BYTES
from lockstep.formats.avro.recent import Recent
from lockstep.formats.avro.schemas import UnknownSchema, schemas
from lockstep.formats.avro.types import converter, type_name, unchanged
from lockstep.formats.avro.writers import Writers
from lockstep.formats.registered import RegisteredDecoder, is_wire_format
from lockstep.formats.values import json_text, taker

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.formats.registered import Avro
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry
    from lockstep.formats.avro.schemas import Schemas
    from lockstep.formats.avro.writers import WriterSchema

# For these, fastavro's value is the column's to the bit, and needs no conversion.
SURE = frozenset({"boolean", "binary", "date", "timestamp"})


def avro_decoder(pipeline: Pipeline, format_: Avro, registry: Registry) -> Decoder:
    """Returns the judge of one task's records."""
    return Decoder(pipeline, format_, schemas(registry))


class Decoder(RegisteredDecoder):
    """The judge of one task's records. It matches each writer's schema with the columns once per id."""

    def __init__(self, pipeline: Pipeline, format_: Avro, known: Schemas) -> None:
        super().__init__(pipeline, format_)
        self._format = format_
        self._writers = Writers(known, pipeline.record_limits)
        self._readers: Recent[Callable[[dict[str, Any]], dict[str, Any]]] = Recent()

    def values(self, record: bytes) -> dict[str, Any]:
        """Returns the row of a record, by the schema that wrote it."""
        writer = self._writers.of_record(record, self._format.subject)
        if writer.schema_id not in self._readers:
            self._readers[writer.schema_id] = self._reader(writer)
        return self._readers[writer.schema_id](writer.read(record))

    def _reader(self, writer: WriterSchema) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """Returns a function from this writer's record to a row.

        Raises `BadData` if a column cannot take the writer's type.
        """
        fields = writer.fields
        if fields is None:
            raise ValueError(f"schema id {writer.schema_id} is {type_name(writer.schema)}, not a record")
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

    def _taker(self, writer: WriterSchema, column: Column, type_: Any) -> Callable[[Any], Any]:
        convert = converter(type_, writer.named, column)
        if convert is None:
            raise BadData(
                f"{self._pipeline.name}: column {column.name} is {column.type}, and schema id {writer.schema_id} writes "
                f"{type_name(type_)}, which would not keep every value",
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

    def key_values(self, key: bytes | None) -> dict[str, Any]:
        """Returns the key column of a tombstone with an Avro key, or nothing for a key of plain text."""
        if self._key is None or key is None or not is_wire_format(key):
            return {}
        try:
            writer = self._writers.of_id(int.from_bytes(key[1:HEAD_BYTES], "big"))
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
