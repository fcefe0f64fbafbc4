"""The short way: a task reads its ranges itself and decodes by columns; Spark is given only what cannot be decoded so.

A worker of Python reads and decodes, Spark goes on with what is left, a second worker stages both. What was decoded goes from
the first to the second in files of their machine, and Spark sees of it a row with the file's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.staging import aside
from lockstep.staging.stretches import END, stretches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lockstep.core.offsets import StreamRange

    Read = Callable[[Sequence[StreamRange]], Iterable[pa.RecordBatch]]
    Decode = Callable[[pa.Array], tuple[np.ndarray, pa.RecordBatch]]

FILE = "_file"
RAW_BYTES = {"_key": pa.binary(), "_value": pa.binary(), "_headers": pa.string()}
# What a task reads, and what of it is left to Spark.
RAW = pa.schema(
    [
        ("_stream", pa.int32()),
        ("_offset", pa.int64()),
        ("_ordinal", pa.int32()),
        ("_timestamp", pa.timestamp("us", "UTC")),
        *RAW_BYTES.items(),
        ("_bytes", pa.int32()),
        ("_partition", pa.int32()),
    ]
)
LEFT = RAW.append(pa.field(FILE, pa.string()))


@dataclass(frozen=True, slots=True)
class ShortWay:
    """The first worker's part: `records` reads ranges, and `decode` says which values it takes, and their columns.

    Each task has its part of the `parts`. `keeps_bytes` is whether the bytes of what is no reject are staged, too, and
    `says_end` whether a row says behind the last record that it was the last.
    """

    records: Read
    parts: tuple[tuple[StreamRange, ...], ...]
    decode: Decode
    keeps_bytes: bool
    says_end: bool = False

    def left(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The raw records, of the parts with these numbers, that could not be decoded.

        Behind those of a stretch comes a row with the name of the others' file; stretches of which none is left share one.
        """
        aside.sweep()
        mine = map(self.parts.__getitem__, each_number(numbers))
        for batch in chain.from_iterable(map(self.records, mine)):
            places, columns = self.decode(batch.column("_value"))
            if len(places) == batch.num_rows:
                yield self._put(batch, columns)
                continue
            begin = 0
            for _, part in stretches([batch]):
                end = begin + part.num_rows
                first, last = np.searchsorted(places, [begin, end])
                yield from self._split(part, places[first:last] - begin, columns.slice(first, last - first))
                begin = end
        if self.says_end:
            yield pa.RecordBatch.from_pylist([{"_stream": END}], schema=LEFT)

    def _split(self, part: pa.RecordBatch, places: np.ndarray, columns: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if rest := part.num_rows - len(places):
            left = np.setdiff1d(np.arange(part.num_rows), places, assume_unique=True)
            yield part.take(pa.array(left)).append_column(FILE, pa.nulls(rest, pa.string()))
        if len(places):
            yield self._put(part.take(pa.array(places)), columns)

    def _put(self, raw: pa.RecordBatch, columns: pa.RecordBatch) -> pa.RecordBatch:
        """The row that stands for these records."""
        decoded = as_decoded(raw, columns, keeps_bytes=self.keeps_bytes)
        row = {"_stream": raw.column("_stream")[0].as_py(), FILE: aside.put([decoded])}
        return pa.RecordBatch.from_pylist([row], schema=LEFT)


def each_number(numbers: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """The numbers of the parts that a task was given."""
    for batch in numbers:
        yield from batch.column("id").to_pylist()


def as_decoded(raw: pa.RecordBatch, columns: pa.RecordBatch, *, keeps_bytes: bool) -> pa.RecordBatch:
    """As Spark would have decoded it: no reject is among them, so no bytes are kept unless all are."""
    arrays = {name: raw.column(name) for name in raw.schema.names if name != "_partition"}
    if not keeps_bytes:
        arrays |= {name: pa.nulls(raw.num_rows, type_) for name, type_ in RAW_BYTES.items()}
    arrays["_deleted"] = pa.repeat(pa.scalar(False), raw.num_rows)  # noqa: FBT003 - a value
    arrays["_reason"] = pa.nulls(raw.num_rows, pa.string())
    arrays |= dict(zip(columns.schema.names, columns.columns, strict=True))
    return pa.RecordBatch.from_pydict(arrays)


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The second worker's part: decoded records, whichever way each was decoded, a stream's stretches in their order.

    What took no short way goes through as it is.
    """
    for batch in batches:
        if FILE not in batch.schema.names:
            yield batch
            continue
        for _, part in stretches([batch]):
            is_file = pc.is_valid(part.column(FILE))
            rest = part.filter(pc.invert(is_file)).drop_columns([FILE])
            # As Spark has it: its session may have a zone of its own.
            schema = pa.schema([(field.name, field.type) for field in rest.schema])
            if rest.num_rows:
                yield pa.RecordBatch.from_arrays(rest.columns, schema=schema)
            for file in part.filter(is_file).column(FILE).to_pylist():
                for decoded in aside.taken(file):
                    yield decoded.select(schema.names).cast(schema)
