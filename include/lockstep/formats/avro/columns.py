"""Decodes many Avro records at once by columns, if the result is what the decoder makes of each alone.

Leaves every other record. The decoder then takes it, or rejects it with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.formats.avro.flat import FlatField, flat_fields
from lockstep.formats.avro.heads import FlatColumns
from lockstep.formats.avro.readers import read_field
from lockstep.formats.avro.schemas import schemas
from lockstep.formats.avro.writers import Writers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lockstep.core.formats.registered import Avro
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry
    from lockstep.formats.avro.cursors import Cursors


class AvroColumns(FlatColumns[FlatField]):
    """The decoder by columns of one task's records."""

    def __init__(self, pipeline: Pipeline, format_: Avro, registry: Registry, needed: frozenset[str]) -> None:
        super().__init__(format_.columns, needed)
        self._subject = format_.subject
        self._writers = Writers(schemas(registry), pipeline.record_limits)

    def fields_of(self, schema_id: int) -> Sequence[FlatField] | None:
        """Returns the fields of a schema's records, or None if one of them is not read by columns."""
        return flat_fields(self._writers.of_id(schema_id, self._subject), self._columns)

    def read(self, cursors: Cursors, field: FlatField) -> pa.Array:
        """Reads a field of each record."""
        return read_field(cursors, field)
