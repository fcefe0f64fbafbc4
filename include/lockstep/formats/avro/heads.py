"""Decodes flat records of registered schemas by columns: takes them apart by the schema that their heads name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from lockstep.core.formats.registered import HEAD_BYTES, MAGIC
from lockstep.formats.avro.cursors import Cursors
from lockstep.formats.avro.recent import Recent
from lockstep.formats.avro.schemas import UnknownSchema
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lockstep.core.pipeline.columns import Column
    from lockstep.formats.avro.cursors import Places

    Decoded = tuple[Places, pa.RecordBatch]

AnyField = TypeVar("AnyField", bound=Any)  # its `column` is None if no column takes it


def _by_schema(values: pa.Array, behind: bytes) -> Iterator[tuple[int, Places, Cursors]]:
    """Yields each schema id with the places of its `binary` values, and cursors behind their heads.

    Leaves values whose head is not followed by the bytes `behind` it.
    """
    _, offsets_at, data = values.buffers()
    if not len(values) or not data:
        return
    offsets = np.frombuffer(offsets_at, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    begins, ends = offsets[:-1], offsets[1:]
    octets, body = np.frombuffer(data, np.uint8), HEAD_BYTES + len(behind)
    good = (ends - begins >= body) & values.is_valid().to_numpy(zero_copy_only=False)
    for place, byte in ((0, MAGIC[0]), *enumerate(behind, HEAD_BYTES)):
        good &= octets.take(begins + place, mode="clip") == byte
    places = np.flatnonzero(good)
    heads = octets[begins[places][:, None] + np.arange(1, HEAD_BYTES)]
    ids = heads.copy().view(">u4")[:, 0] if len(heads) else places
    known = np.unique(ids).tolist()
    for schema_id in known:
        mine = places if len(known) == 1 else places[ids == schema_id]
        yield schema_id, mine, Cursors(data, begins[mine] + body, ends[mine])


class FlatColumns(ABC, Generic[AnyField]):
    """The decoder by columns of one task's records. It asks the registry for each schema once."""

    behind = b""  # the bytes that follow the head of a record that is decoded

    def __init__(self, columns: Sequence[Column], needed: frozenset[str]) -> None:
        self._columns = columns
        self._needed = needed
        self._fields: Recent[Sequence[AnyField] | None] = Recent()

    @abstractmethod
    def fields_of(self, schema_id: int) -> Sequence[AnyField] | None:
        """Returns the fields of a schema's records in order, or None if the decoder must judge each of them.

        Raises `UnknownSchema` or `ValueError` if this task cannot know them.
        """

    @abstractmethod
    def read(self, cursors: Cursors, field: AnyField) -> pa.Array:
        """Reads a field of each record. Raises `ValueError`, `IndexError` or `ArithmeticError` for what is unforeseen."""

    def __call__(self, values: pa.Array) -> Decoded:
        """Returns the places of the decoded `binary` values, in order, and their columns. The other values are left.

        Raises `Unreachable` if the registry does not answer.
        """
        return _in_order(self._by_schema(values), self._columns)

    def _by_schema(self, values: pa.Array) -> Iterator[Decoded]:
        for schema_id, mine, cursors in _by_schema(values, self.behind):
            if (fields := self._known_fields(schema_id)) is None:
                continue
            try:
                arrays = [(field.column, self.read(cursors, field)) for field in fields]
            except (ValueError, IndexError, ArithmeticError):  # the decoder says what it was
                continue
            found = {column.name: array for column, array in arrays if column is not None}
            batch = _good_rows(cursors, found, self._columns, self._needed)
            yield mine[cursors.good], batch

    def _known_fields(self, schema_id: int) -> Sequence[AnyField] | None:
        if schema_id not in self._fields:
            try:
                self._fields[schema_id] = self.fields_of(schema_id)
            except (UnknownSchema, ValueError):
                return None
        return self._fields[schema_id]


def _in_order(parts: Iterable[Decoded], columns: Sequence[Column]) -> Decoded:
    """Returns the decoded records of all schemas as one batch, in the order of their places."""
    found = list(parts)
    if not found:
        schema = pa.schema([(column.name, arrow_type(column)) for column in columns])
        return np.array([], np.int64), pa.RecordBatch.from_pylist([], schema=schema)
    if len(found) == 1:
        return found[0]
    every = np.concatenate([places for places, _ in found])
    order = np.argsort(every)
    return every[order], pa.concat_batches([batch for _, batch in found]).take(pa.array(order))


def _good_rows(
    cursors: Cursors, found: Mapping[str, pa.Array], columns: Sequence[Column], needed: Collection[str]
) -> pa.RecordBatch:
    """Returns the columns of the good records. Refuses those with bytes left, and those without a needed value.

    A column that nothing was found for is null.
    """
    cursors.finish()
    arrays = []
    for column in columns:
        array = found.get(column.name)
        array = pa.nulls(len(cursors.good), arrow_type(column)) if array is None else array
        if column.name in needed and array.null_count:
            cursors.refuse(cursors.rows(), array.is_null().to_numpy(zero_copy_only=False))
        arrays.append(array)
    batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])
    return batch if cursors.good.all() else batch.filter(pa.array(cursors.good))
