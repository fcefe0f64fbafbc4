"""Parses many JSON records at once with Arrow, if the result is what the judge makes of each alone.

Columns that Arrow cannot read exactly are read field by field, by the judge's own readers. Records that it and the judge
might read differently are left. The judge then takes each of them, or rejects it with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from lockstep.core.pipeline.columns import MAX_PRECISION, digits
from lockstep.core.pipeline.definition import Json
from lockstep.core.pipeline.targets import needed_columns
from lockstep.formats.json.alike import exact, is_json, parsed_type, plain_places
from lockstep.formats.json.apart import field_reader, screen_of
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.formats.json.alike import Places

    Decoded = tuple[Places, pa.RecordBatch]  # the places of decoded values, in order, and their columns

RECORDS_PER_PARSE = 10_000  # records of one parse, as long as all of them are good
FEW_RECORDS = 64  # among so few, a bad record is not searched for: all are left to the judge
SEARCHES = 64  # so often, some of one parse's records may be parsed in vain
ROUNDS = 4  # so often, columns that one record makes suspect are looked at. Then all are


def columnar(pipeline: Pipeline) -> JsonColumns | None:
    """Returns a decoder by columns of the pipeline's JSON, or None for another format."""
    format_ = pipeline.format
    if not isinstance(format_, Json):
        return None
    needed = frozenset(needed_columns(pipeline.targets, pipeline.event_time))
    return JsonColumns(format_.columns, needed, format_.rest, is_strict=format_.strict)


def _is_exact(column: Column) -> bool:
    """Returns True if Arrow's parser gives values of this column's type exactly, or if the others can be detected."""
    if column.type.startswith("decimal"):
        return sum(digits(column.type)) <= MAX_PRECISION  # beyond it, Arrow may shift digits out without a word
    return column.type != "binary"


@dataclass(frozen=True, slots=True)
class JsonColumns:
    """The decoder of records to these columns. It leaves a record with null where a column is `needed`.

    The column `rest` gathers the fields without a column. In a strict schema there is a field for each column, and no other.
    """

    columns: tuple[Column, ...]
    needed: frozenset[str] = frozenset()
    rest: str | None = None
    is_strict: bool = False

    def __call__(self, values: pa.Array) -> Decoded:
        """Decodes those of the `binary` values that are surely rows. The other values are left."""
        places, parsed = [np.array([], np.int64)], []
        apart = tuple(column for column in self.columns if column.name == self.rest or not _is_exact(column))
        for begin in range(0, len(values), RECORDS_PER_PARSE):
            piece = values.slice(begin, RECORDS_PER_PARSE)
            plain = plain_places(piece)
            is_apart = apart or self.is_strict
            found = self._apart(piece, plain, apart, ROUNDS) if is_apart else self._whole(piece, plain, ROUNDS)
            for taken, batch in found:
                places.append(taken + begin)
                parsed.append(batch)
        schema = pa.schema([(column.name, arrow_type(column)) for column in self.columns])
        parsed = parsed or [pa.RecordBatch.from_pylist([], schema=schema)]
        whole, columns = np.concatenate(places), pa.concat_batches(parsed)
        if (np.diff(whole) > 0).all():
            return whole, columns
        order = np.argsort(whole)
        return whole[order], columns.take(pa.array(order))

    def _whole(self, values: pa.Array, places: Places, rounds: int) -> Iterator[Decoded]:
        """Decodes the values at these places together. If Arrow refuses them, a typed look finds out why."""
        if not len(places):
            return
        if (decoded := self._decoded(values, places)) is not None:
            yield from decoded
            return
        records = _taken(values, places).to_pylist()
        refused = next((record for record in records if not screen_of(self.columns)(record)), None)
        if refused is None:
            yield from self._halved(values, places, [SEARCHES])
            return
        suspects = self._suspects(refused) if rounds else self.columns
        texts = tuple(column for column in suspects if column.type == "string")
        if texts:
            yield from self._apart(values, places, texts, max(rounds - 1, 0))
        else:
            seem_good = np.fromiter(map(screen_of(suspects), records), np.bool_, len(records))
            yield from self._whole(values, places[seem_good], max(rounds - 1, 0))

    def _suspects(self, record: bytes) -> tuple[Column, ...]:
        """Returns the columns for which a record has a value of another type. A value that is not JSON has none."""
        if not is_json(record):
            return ()
        return tuple(column for column in self.columns if not screen_of((column,))(record)) or self.columns

    def _apart(self, values: pa.Array, places: Places, apart: tuple[Column, ...], rounds: int) -> Iterator[Decoded]:
        """Decodes the values at these places: these columns field by field, and the others together."""
        others = tuple(column for column in self.columns if column not in apart)
        narrow = replace(self, columns=others, rest=None, is_strict=False)
        return self._joined(values, places, apart, lambda found: narrow._whole(values, found, rounds))  # noqa: SLF001 - its own class

    def _joined(
        self,
        values: pa.Array,
        places: Places,
        apart: tuple[Column, ...],
        others: Callable[[Places], Iterable[Decoded]],
    ) -> Iterator[Decoded]:
        """Reads these columns field by field. Yields them with the `others` of the places where that succeeds."""
        names = frozenset(column.name for column in self.columns if column.name != self.rest)
        read = field_reader(apart, names if self.rest or self.is_strict else frozenset(), self.rest)
        needed = [place for place, column in enumerate(apart) if column.name in self.needed]
        rows = [read(record) for record in _taken(values, places).to_pylist()]
        has_all = (row is not None and all(row[place] is not None for place in needed) for row in rows)
        is_read = np.fromiter(has_all, np.bool_, len(rows))
        known, fields = places[is_read], zip(*compress(rows, is_read), strict=True)
        arrays = {column.name: pa.array(its, arrow_type(column)) for column, its in zip(apart, fields, strict=False)}
        for found, batch in others(known):
            whole = dict(zip(batch.schema.names, batch.columns, strict=True))
            whole |= {name: _rows_at(array, known, found) for name, array in arrays.items()}
            yield found, pa.RecordBatch.from_pydict({column.name: whole[column.name] for column in self.columns})

    def _halved(self, values: pa.Array, places: Places, left: list[int]) -> Iterator[Decoded]:
        """Decodes the values at these places: all together, or by halves if that fails."""
        if not len(places) or not left[0]:
            return
        if (decoded := self._decoded(values, places)) is not None:
            yield from decoded
            return
        left[0] -= 1
        if len(places) > FEW_RECORDS:
            for half in np.array_split(places, 2):
                yield from self._halved(values, half, left)

    def _decoded(self, values: pa.Array, places: Places) -> Iterator[Decoded] | None:
        """Decodes the values at these places. Returns None if one of them is no record, or has a value of another type.

        Each value is a line that begins and ends with a brace, so it holds at least one object. If there are as many
        objects as values, each value is one.
        """
        some = _taken(values, places)
        lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(some)], pa.int32()), some), b"\n")
        text = pa.py_buffer(lines.buffers()[2])
        fields = pa.schema([(column.name, parsed_type(column)) for column in self.columns])
        try:
            table = json.read_json(
                pa.BufferReader(text),
                json.ReadOptions(use_threads=False, block_size=text.size + 1),  # one block: nothing lies across two
                json.ParseOptions(explicit_schema=fields, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowInvalid:
            return None
        return self._exact(values, places, table) if table.num_rows == len(some) else None

    def _exact(self, values: pa.Array, places: Places, table: pa.Table) -> Iterator[Decoded]:
        """Yields the records that Arrow has read exactly, and then those with fields that were read apart."""
        whole = [exact(table.column(each.name).combine_chunks(), each) for each in self.columns]
        batch = pa.RecordBatch.from_arrays([array for array, _ in whole], names=table.schema.names)
        is_odd, is_left = np.zeros((2, len(places)), np.bool_)
        for (array, odd), column in zip(whole, self.columns, strict=True):
            if odd is not None:
                is_odd |= odd
            if column.name in self.needed and array.null_count:
                is_null = array.is_null().to_numpy(zero_copy_only=False)
                is_left |= is_null if odd is None else is_null & ~odd
        if not is_odd.any() and not is_left.any():
            yield places, batch
            return
        sure, unsure = ~(is_odd | is_left), np.flatnonzero(is_odd & ~is_left)
        yield places[sure], batch.filter(pa.array(sure))
        if len(unsure):
            apart = tuple(column for (_, odd), column in zip(whole, self.columns, strict=True) if odd is not None)
            at, part = places[unsure], batch.take(pa.array(unsure))
            yield from self._joined(values, at, apart, lambda found: [(found, _rows_at(part, at, found))])


def _taken(values: pa.Array, places: Places) -> pa.Array:
    return values.take(pa.array(places)) if len(places) < len(values) else values


def _rows_at(rows: Any, places: Places, found: Places) -> Any:
    """Returns those of the rows at these places, an array or a batch, that have been found."""
    return rows if len(found) == len(places) else rows.take(pa.array(np.searchsorted(places, found)))
