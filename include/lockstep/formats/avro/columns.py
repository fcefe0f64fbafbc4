"""Decodes many Avro records at once by columns, if the result is what the decoder makes of each alone.

Leaves every other record. The decoder then takes it, or rejects it with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.core.formats.registered import Avro, require_registry
from lockstep.core.pipeline.targets import needed_columns
from lockstep.formats.avro.flat import flat_fields
from lockstep.formats.avro.heads import by_schema, good_rows, in_order
from lockstep.formats.avro.readers import read_field
from lockstep.formats.avro.recent import Recent
from lockstep.formats.avro.schemas import UnknownSchema, schemas
from lockstep.formats.avro.writers import Writers

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry
    from lockstep.formats.avro.cursors import Cursors, Places
    from lockstep.formats.avro.flat import FlatField


def avro_columns(pipeline: Pipeline, registry: Registry | None) -> AvroColumns | None:
    """Returns a decoder by columns for the pipeline, or None if its definition does not allow that.

    Raises `BadDefinition` without a registry.
    """
    format_ = pipeline.format
    if not isinstance(format_, Avro) or format_.rest is not None:
        return None
    return AvroColumns(pipeline, format_, require_registry(pipeline, format_, registry))


@dataclass(slots=True)
class AvroColumns:
    """The decoder of one task's records. It asks the registry for each schema once. Executors get it by value."""

    pipeline: Pipeline
    format: Avro
    registry: Registry
    _writers: Writers | None = field(default=None, init=False)
    _fields: Recent[tuple[FlatField, ...] | None] = field(default_factory=Recent, init=False)

    def __call__(self, values: pa.Array) -> tuple[Places, pa.RecordBatch]:
        """Returns the places of the decoded `binary` values, in order, and their columns. The other values are left.

        Raises `Unreachable` if the registry does not answer.
        """
        return in_order(self._by_schema(values), self.format.columns)

    def _by_schema(self, values: pa.Array) -> Iterator[tuple[Places, pa.RecordBatch]]:
        """Yields the decoded records of each schema id."""
        for schema_id, mine, cursors in by_schema(values):
            if (fields := self._flat(schema_id)) is not None and (batch := self._decoded(cursors, fields)) is not None:
                yield mine[cursors.good], batch

    def _flat(self, schema_id: int) -> tuple[FlatField, ...] | None:
        """Returns the fields of a schema's records, or None if the decoder must judge each of them."""
        if schema_id not in self._fields:
            if self._writers is None:
                self._writers = Writers(schemas(self.registry), self.pipeline.record_limits)
            try:
                writer = self._writers.of_id(schema_id, self.format.subject)
            except UnknownSchema:
                return None
            self._fields[schema_id] = flat_fields(writer, self.format.columns)
        return self._fields[schema_id]

    def _decoded(self, cursors: Cursors, fields: tuple[FlatField, ...]) -> pa.RecordBatch | None:
        """Returns the columns of the good records. Returns None if something unforeseen happened."""
        found: dict[str, pa.Array] = {}
        try:
            for each in fields:
                values = read_field(cursors, each)
                if each.column is not None:
                    found[each.column.name] = values
        except (ValueError, IndexError, ArithmeticError):  # the decoder says what it was
            return None
        needed = needed_columns(self.pipeline.targets, self.pipeline.event_time)
        return good_rows(cursors, found, self.format.columns, needed)
