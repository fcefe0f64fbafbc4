"""Parses many JSON records at once with Arrow, if the result is what the judge makes of each alone.

Leaves records that the two might read differently. The judge then takes each of them, or rejects it with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from lockstep.core.pipeline.columns import MAX_PRECISION, digits
from lockstep.core.pipeline.definition import Json
from lockstep.core.pipeline.targets import needed_columns
from lockstep.formats.json.alike import exact, parsed_type, plain_places
from lockstep.formats.json.screen import screen_of, writer_of_texts
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.formats.json.alike import Flags, Places

RECORDS_PER_PARSE = 10_000  # records of one parse, as long as all of them are good
FEW_RECORDS = 64  # among so few, a bad record is not searched for: all are left to the judge
SEARCHES = 64  # so often, some of one parse's records may be parsed in vain


def columnar(pipeline: Pipeline) -> JsonColumns | None:
    """Returns a decoder by columns for the pipeline, or None if its format, or a column, does not allow that."""
    format_ = pipeline.format
    if not isinstance(format_, Json) or format_.registry or format_.strict or format_.rest is not None:
        return None
    if not all(map(_is_exact, format_.columns)):
        return None
    return JsonColumns(format_.columns, frozenset(needed_columns(pipeline.targets, pipeline.event_time)))


def _is_exact(column: Column) -> bool:
    """Returns True if Arrow's parser gives values of this column's type exactly, or if the others can be detected."""
    if column.type.startswith("decimal"):
        return sum(digits(column.type)) <= MAX_PRECISION  # beyond it, Arrow may shift digits out without a word
    return column.type != "binary"


@dataclass(frozen=True, slots=True)
class JsonColumns:
    """The decoder of records to these columns. It leaves a record with null where a column is `needed`."""

    columns: tuple[Column, ...]
    needed: frozenset[str] = frozenset()

    def __call__(self, values: pa.Array) -> tuple[Places, pa.RecordBatch]:
        """Returns the places of the decoded `binary` values, in order, and their columns. The other values are left."""
        places, parsed = [np.array([], np.int64)], []
        for begin in range(0, len(values), RECORDS_PER_PARSE):
            piece = values.slice(begin, RECORDS_PER_PARSE)
            for taken, batch in self._whole(piece, plain_places(piece)):
                places.append(taken + begin)
                parsed.append(batch)
        schema = pa.schema([(column.name, arrow_type(column)) for column in self.columns])
        parsed = parsed or [pa.RecordBatch.from_pylist([], schema=schema)]
        whole, columns = np.concatenate(places), pa.concat_batches(parsed)
        if (np.diff(whole) > 0).all():
            return whole, columns
        order = np.argsort(whole)
        return whole[order], columns.take(pa.array(order))

    def _whole(self, values: pa.Array, places: Places) -> Iterator[tuple[Places, pa.RecordBatch]]:
        """Decodes the values at these places: all together, or without those that a typed look finds bad."""
        if (decoded := self._decoded(values, places)) is not None:
            yield decoded
            return
        seems_good = screen_of(self.columns)(values.take(pa.array(places)))
        yield from self._halved(values, places[seems_good], [SEARCHES])
        yield from self._written_anew(values, places[~seems_good])

    def _written_anew(self, values: pa.Array, places: Places) -> Iterator[tuple[Places, pa.RecordBatch]]:
        """Decodes those of the values that are records with nested values or numbers where columns want texts."""
        write = writer_of_texts(self.columns)
        written = [(place, text) for place in places.tolist() if (text := write(values[place].as_py())) is not None]
        texts, whole = pa.array([text for _, text in written], pa.binary()), np.array([p for p, _ in written], np.int64)
        for found, batch in self._halved(texts, np.arange(len(written)), [SEARCHES]):
            yield whole[found], batch

    def _halved(self, values: pa.Array, places: Places, left: list[int]) -> Iterator[tuple[Places, pa.RecordBatch]]:
        """Decodes the values at these places: all together, or by halves if that fails."""
        if not len(places) or not left[0]:
            return
        if (decoded := self._decoded(values, places)) is not None:
            yield decoded
            return
        left[0] -= 1
        if len(places) > FEW_RECORDS:
            for half in np.array_split(places, 2):
                yield from self._halved(values, half, left)

    def _decoded(self, values: pa.Array, places: Places) -> tuple[Places, pa.RecordBatch] | None:
        """Returns the places of the decoded values with their columns. Returns None if one of the values is no record."""
        parsed = self._parsed(values.take(pa.array(places)) if len(places) < len(values) else values)
        if parsed is None:
            return None
        good, batch = parsed
        return (places if good is None else places[good]), batch

    def _parsed(self, values: pa.Array) -> tuple[Flags | None, pa.RecordBatch] | None:
        """Returns flags of the decoded values, None for all, and their columns. Returns None if a value is no record.

        Each value is a line that begins and ends with a brace, so it holds at least one object. If there are as many
        objects as values, each value is one.
        """
        lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")
        text = pa.py_buffer(lines.buffers()[2])
        fields = pa.schema([(column.name, parsed_type(column)) for column in self.columns])
        try:
            table = json.read_json(
                pa.BufferReader(text),
                json.ReadOptions(use_threads=False, block_size=text.size + 1),  # one block: nothing lies across two
                json.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore"),
            )
            if table.num_rows != len(values):
                return None
            columns = [exact(table.column(each.name).combine_chunks(), each) for each in self.columns]
        except pa.ArrowInvalid:
            return None
        odd = [bad for _, bad in columns if bad is not None]
        for (array, _), column in zip(columns, self.columns, strict=True):
            if column.name in self.needed and array.null_count:
                odd.append(array.is_null().to_numpy(zero_copy_only=False))
        batch = pa.RecordBatch.from_arrays([array for array, _ in columns], names=table.schema.names)
        if not odd:
            return None, batch
        good = ~np.logical_or.reduce(odd)
        return good, batch.filter(pa.array(good))
