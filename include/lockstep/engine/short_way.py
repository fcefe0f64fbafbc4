"""Runs the short way: a task reads its ranges itself and decodes by columns. Spark decodes only the rest.

A Python worker reads and decodes, Spark handles the rest, a second worker stages both. Decoded records pass from the
first worker to the second in files of their machine. Spark sees a row with the file's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.errors import ReaderDied, UnreadableHeaders
from lockstep.core.records import BYTES_COLUMNS, FILE_COLUMN, READ_COLUMNS
from lockstep.deadline import Deadline
from lockstep.engine.sinks import aside
from lockstep.engine.sinks.stretches import END, rows_by_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lockstep.core.offsets import StreamRange
    from lockstep.formats import Decode

    Read = Callable[[Sequence[StreamRange]], Iterable[pa.RecordBatch]]

ARROW_TYPES = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
}
# The records that a task reads, and those that are left to Spark.
RAW_SCHEMA = pa.schema([(name, ARROW_TYPES[type_]) for name, type_ in READ_COLUMNS])
LEFT_SCHEMA = RAW_SCHEMA.append(pa.field(FILE_COLUMN, pa.string()))


@dataclass(frozen=True, slots=True)
class ShortWay:
    """The part of the first worker: `records` reads ranges, `decode` returns places and columns of decoded values.

    Each task has its part of the `parts`. With `keeps_bytes`, the bytes of good records are staged, too. With
    `says_end`, a last row marks the end of the records.
    """

    records: Read
    parts: tuple[tuple[StreamRange, ...], ...]
    decode: Decode
    keeps_bytes: bool
    says_end: bool = False

    def left(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the raw records, of the parts with these numbers, that could not be decoded.

        A row with a file's name, which holds the decoded records, follows each stretch. Stretches without any rest
        share a file.
        """
        aside.sweep()
        mine = map(self.parts.__getitem__, each_number(numbers))
        for batch in self._read(chain.from_iterable(map(self.records, mine))):
            places, columns = self.decode(batch.column("_value"))
            if len(places) == batch.num_rows:
                yield self._put(batch, columns)
                continue
            begin = 0
            for _, part in rows_by_stream([batch]):
                end = begin + part.num_rows
                first, last = np.searchsorted(places, [begin, end])
                yield from self._split(part, places[first:last] - begin, columns.slice(first, last - first))
                begin = end
        if self.says_end:
            yield pa.RecordBatch.from_pylist([{"_stream": END}], schema=LEFT_SCHEMA)

    def _read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the raw records. Raises `ReaderDied` for one that Spark's source alone can read, and which then does."""
        try:
            yield from batches
        except UnreadableHeaders as error:
            raise ReaderDied(error.message) from None

    def _split(self, part: pa.RecordBatch, places: np.ndarray, columns: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if rest := part.num_rows - len(places):
            left = np.setdiff1d(np.arange(part.num_rows), places, assume_unique=True)
            yield part.take(pa.array(left)).append_column(FILE_COLUMN, pa.nulls(rest, pa.string()))
        if len(places):
            yield self._put(part.take(pa.array(places)), columns)

    def _put(self, raw: pa.RecordBatch, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Writes decoded records to a file. Returns the row with the file's name."""
        decoded = as_decoded(raw, columns, keeps_bytes=self.keeps_bytes)
        no = pa.repeat(pa.scalar(False), raw.num_rows)  # noqa: FBT003 - a value
        decoded = decoded.append_column("_filtered", no)  # some of Spark's decoders have it, and the others drop it
        row = {"_stream": raw.column("_stream")[0].as_py(), FILE_COLUMN: aside.spill([decoded])}
        return pa.RecordBatch.from_pylist([row], schema=LEFT_SCHEMA)


def with_deadline(decode: Decode, seconds: float) -> Decode:
    """Returns the decoder of a task's pieces, which ends its process if one piece takes longer."""
    deadline = Deadline(seconds)

    def decoded(values: pa.Array) -> tuple[np.ndarray, pa.RecordBatch]:
        with deadline:
            return decode(values)

    return decoded


def each_number(numbers: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Yields the numbers of the parts that a task was given."""
    for batch in numbers:
        yield from batch.column("id").to_pylist()


def as_decoded(raw: pa.RecordBatch, columns: pa.RecordBatch, *, keeps_bytes: bool) -> pa.RecordBatch:
    """Returns records as Spark would have decoded them.

    None of them is a reject, so it keeps bytes only if all records keep them.
    """
    arrays = {name: raw.column(name) for name in raw.schema.names if name not in {"_topic", "_partition"}}
    if not keeps_bytes:
        arrays |= {name: pa.nulls(raw.num_rows, RAW_SCHEMA.field(name).type) for name in BYTES_COLUMNS}
    arrays["_deleted"] = pa.repeat(pa.scalar(False), raw.num_rows)  # noqa: FBT003 - a value
    arrays["_reason"] = pa.nulls(raw.num_rows, pa.string())
    arrays |= dict(zip(columns.schema.names, columns.columns, strict=True))
    return pa.RecordBatch.from_pydict(arrays)


def join_decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields decoded records in the second worker, from Spark and from files, each stream's stretches in order.

    Passes other input through unchanged.
    """
    for batch in batches:
        if FILE_COLUMN not in batch.schema.names:
            yield batch
            continue
        for _, part in rows_by_stream([batch]):
            is_file = pc.is_valid(part.column(FILE_COLUMN))
            rest = part.filter(pc.invert(is_file)).drop_columns([FILE_COLUMN])
            # As Spark has it: its session may have a zone of its own.
            schema = pa.schema([(field.name, field.type) for field in rest.schema])
            if rest.num_rows:
                yield pa.RecordBatch.from_arrays(rest.columns, schema=schema)
            for file in part.filter(is_file).column(FILE_COLUMN).to_pylist():
                for decoded in aside.take_spilled(file):
                    yield decoded.select(schema.names).cast(schema)
