"""Judges records whose schemas are in a registry: what Avro, Protobuf and JSON Schema share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lockstep.core.formats.registered import HEAD_BYTES, MAGIC
from lockstep.formats.avro.recent import Recent
from lockstep.formats.avro.schemas import UnknownSchema, schema_size
from lockstep.formats.json.judge import tombstone
from lockstep.formats.rows import RecordOutcome

if TYPE_CHECKING:
    from lockstep.core.formats.registered import Avro, Protobuf
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.limits import RecordLimits
    from lockstep.formats.avro.schemas import Schemas

AnyWriter = TypeVar("AnyWriter")


def is_wire_format(record: bytes) -> bool:
    """Returns True if the bytes begin as a record of Confluent's wire format."""
    return len(record) >= HEAD_BYTES and record[:1] == MAGIC


class WritersById(ABC, Generic[AnyWriter]):
    """The writers of one task's records by schema id. Those used last are kept parsed."""

    def __init__(self, schemas: Schemas, limits: RecordLimits) -> None:
        self._schemas = schemas
        self._limits = limits
        self._writers: Recent[AnyWriter] = Recent()
        self._refused: dict[tuple[int, str | None], UnknownSchema] = {}

    @abstractmethod
    def parse(self, schema_id: int) -> AnyWriter:
        """Returns the writer of a schema id. Raises `UnknownSchema` if the registry has no schema that can be read."""

    def of_record(self, record: bytes, subject: str | None = None) -> AnyWriter:
        """Returns the writer of a record. Raises `ValueError` with the reason if nothing says which it is."""
        if not is_wire_format(record):
            raise ValueError("not Confluent's wire format: a zero byte, the schema's id, the record")
        try:
            return self.of_id(int.from_bytes(record[1:HEAD_BYTES], "big"), subject)
        except UnknownSchema as unknown:
            raise ValueError(str(unknown)) from None

    def of_id(self, schema_id: int, subject: str | None = None) -> AnyWriter:
        """Returns the writer of a schema id. An id that the registry refused stays refused for this task alone.

        Keys have no subject: what is known of an id as a key's says nothing of it as a value's.
        """
        known = schema_id, subject
        if known in self._refused:
            raise self._refused[known]
        if known in self._writers:
            return self._writers[known]
        if len(self._refused) >= self._limits.schemas:
            raise UnknownSchema(
                f"schema id {schema_id} was not asked for: the registry refused {len(self._refused)} others, which is the limit"
            )
        try:
            if subject is not None:
                self._schemas.require_subject(schema_id, subject)
            writer = self.parse(schema_id)
        except UnknownSchema as unknown:
            self._refused[known] = unknown
            raise
        self._writers.put(known, writer, schema_size(*self._schemas.writer(schema_id)))
        return writer


class RegisteredDecoder(ABC):
    """The judge of one task's records, which are values of a registered schema or deletions."""

    def __init__(self, pipeline: Pipeline, format_: Avro | Protobuf) -> None:
        self._pipeline = pipeline
        self._key = next((column for column in format_.columns if column.name == format_.key), None)

    @abstractmethod
    def values(self, record: bytes) -> dict[str, Any]:
        """Returns the row of a record. Raises `ValueError` with the reason if it is a reject."""

    @abstractmethod
    def key_values(self, key: bytes | None) -> dict[str, Any]:
        """Returns the key column of a tombstone with a registered key, or nothing for a key of plain text."""

    def __call__(self, key: bytes | None, value: bytes | None, _headers: str | None) -> RecordOutcome:
        """Returns the outcome of a record."""
        deletes = value is None and self._pipeline.takes_tombstones
        try:
            if value is not None:
                return RecordOutcome(self.values(value))
            if not deletes:
                return RecordOutcome(reason="null value")
            values = self.key_values(key)
            return RecordOutcome(values, deleted=True) if values else tombstone(key, self._key)
        except ValueError as error:
            return RecordOutcome(reason=str(error), deleted=deletes)
