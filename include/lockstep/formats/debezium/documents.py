"""Reads keys and values of change records as documents: a payload and, if the bytes lead to one, its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.formats.avro.recent import Recent
from lockstep.formats.debezium.change import json_document
from lockstep.formats.debezium.decoder import ChangeDecoder
from lockstep.formats.debezium.of_avro import connect_schema

if TYPE_CHECKING:
    from lockstep.core.capture.debezium import Debezium
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry
    from lockstep.formats.avro.writers import Writers
    from lockstep.formats.debezium.change import Fields

    Document = tuple[Any, Fields | None]


def change_decoder(pipeline: Pipeline, format_: Debezium, registry: Registry | None) -> ChangeDecoder:
    """Returns the judge of the pipeline's records, for one task."""
    if format_.wire is None:
        return ChangeDecoder(pipeline.name, format_)
    if registry is None:
        raise LookupError("Avro without a registry")
    from lockstep.formats.avro.schemas import schemas  # noqa: PLC0415 - the client is slow to import
    from lockstep.formats.avro.writers import Writers  # noqa: PLC0415 - as above

    documents = AvroDocuments(Writers(schemas(registry), pipeline.record_limits), format_.wire.subject)
    return ChangeDecoder(pipeline.name, format_, documents.of_value, documents.of_key)


class AvroDocuments:
    """Documents of Confluent's wire format. A key may also be JSON or plain text."""

    def __init__(self, writers: Writers, subject: str | None) -> None:
        self._writers = writers
        self._subject = subject
        self._schemas: Recent[Fields] = Recent()

    def of_value(self, data: bytes) -> Document:
        """Returns the document of a value. Raises `ValueError` with the reason if it is none."""
        return self._read(data, self._subject)

    def of_key(self, data: bytes) -> Document:
        """Returns the document of a key. Raises `ValueError` if it is none."""
        from lockstep.formats.registered import is_wire_format  # noqa: PLC0415 - as above

        return self._read(data, None) if is_wire_format(data) else json_document(data)

    def _read(self, data: bytes, subject: str | None) -> Document:
        writer = self._writers.of_record(data, subject)
        if writer.schema_id not in self._schemas:
            self._schemas[writer.schema_id] = connect_schema(writer.schema, writer.named)
        return writer.read(data), self._schemas[writer.schema_id]
