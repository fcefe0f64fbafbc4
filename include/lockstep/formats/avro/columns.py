"""Decodes many Avro records at once by columns, if the result is what the decoder makes of each alone.

Leaves every other record. The decoder then takes it, or rejects it with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lockstep.core.formats.registered import HEAD_BYTES, MAGIC, Avro
from lockstep.core.pipeline.targets import needed_columns
from lockstep.core.planning.routes import not_by_columns
from lockstep.formats.avro.cursors import Cursors
from lockstep.formats.avro.flat import flat_fields
from lockstep.formats.avro.readers import read_field
from lockstep.formats.avro.schemas import UnknownSchema, schemas
from lockstep.formats.avro.writers import Writers
from lockstep.formats.registered import require_registry
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry
    from lockstep.formats.avro.cursors import Flags, Places
    from lockstep.formats.avro.flat import FlatField


def avro_columns(pipeline: Pipeline, registry: Registry | None) -> AvroColumns | None:
    """Returns a decoder by columns for the pipeline, or None if its definition does not allow that.

    Raises `BadDefinition` without a registry.
    """
    format_ = pipeline.format
    if not isinstance(format_, Avro) or not_by_columns(pipeline):
        return None
    return AvroColumns(pipeline, format_, require_registry(pipeline, format_, registry))


@dataclass(slots=True)
class AvroColumns:
    """The decoder of one task's records. It asks the registry for each schema once. Executors get it by value."""

    pipeline: Pipeline
    format: Avro
    registry: Registry
    _writers: Writers | None = field(default=None, init=False)
    _fields: dict[int, tuple[FlatField, ...] | None] = field(default_factory=dict, init=False)

    def __call__(self, values: pa.Array) -> tuple[Places, pa.RecordBatch]:
        """Returns the places of the decoded `binary` values, in order, and their columns. The other values are left.

        Raises `Unreachable` if the registry does not answer.
        """
        places, parts = [], []
        for taken, batch in self._by_schema(values):
            places.append(taken)
            parts.append(batch)
        if not parts:
            schema = pa.schema([(column.name, arrow_type(column)) for column in self.format.columns])
            return np.array([], np.int64), pa.RecordBatch.from_pylist([], schema=schema)
        if len(parts) == 1:
            return places[0], parts[0]
        every = np.concatenate(places)
        order = np.argsort(every)
        return every[order], pa.concat_batches(parts).take(pa.array(order))

    def _by_schema(self, values: pa.Array) -> Iterator[tuple[Places, pa.RecordBatch]]:
        """Yields the decoded records of each schema id."""
        _, offsets_at, data = values.buffers()
        if not len(values) or data is None:
            return
        offsets = np.frombuffer(offsets_at, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
        begins, ends = offsets[:-1], offsets[1:]
        sizes = ends - begins
        good = sizes >= HEAD_BYTES
        good &= values.is_valid().to_numpy(zero_copy_only=False)
        octets = np.frombuffer(data, np.uint8)
        good[good] = octets[begins[good]] == MAGIC[0]
        places = np.flatnonzero(good)
        heads = octets[begins[places][:, None] + np.arange(1, HEAD_BYTES)]
        ids = heads.copy().view(">u4")[:, 0] if len(heads) else places
        for schema_id in np.unique(ids).tolist():
            mine = places[ids == schema_id]
            if (fields := self._flat(schema_id)) is not None:
                cursors = Cursors(data, begins[mine] + HEAD_BYTES, ends[mine])
                if (found := self._decoded(cursors, fields)) is not None:
                    yield mine[found[0]], found[1]

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

    def _decoded(self, cursors: Cursors, fields: tuple[FlatField, ...]) -> tuple[Flags, pa.RecordBatch] | None:
        """Returns flags of the decoded records, and their columns. Returns None if something unforeseen happened."""
        found: dict[str, pa.Array] = {}
        try:
            for each in fields:
                values = read_field(cursors, each)
                if each.column is not None:
                    found[each.column.name] = values
        except (ValueError, IndexError, ArithmeticError):  # the decoder says what it was
            return None
        cursors.finish()
        needed = needed_columns(self.pipeline.targets, self.pipeline.event_time)
        arrays = []
        for column in self.format.columns:
            array = found.get(column.name)
            array = pa.nulls(len(cursors.good), arrow_type(column)) if array is None else array
            if column.name in needed and array.null_count:
                cursors.refuse(cursors.rows(), array.is_null().to_numpy(zero_copy_only=False))
            arrays.append(array)
        batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self.format.columns])
        return cursors.good, batch if cursors.good.all() else batch.filter(pa.array(cursors.good))
