"""Reads, decodes and writes ranges in one process if every record decodes by columns. Leaves other ranges."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from lockstep.core.staging import LeftToSpark, RangeOutcome
from lockstep.staging.range_writer import said
from lockstep.staging.short_way import as_decoded, each_number
from lockstep.staging.stretches import END, LEFT
from lockstep.staging.tally import LINES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lockstep.core.offsets import StreamRange
    from lockstep.staging.range_writer import RangeWriter
    from lockstep.staging.short_way import Decode, Read
    from lockstep.staging.writer import Writer

END_ROW = pa.RecordBatch.from_pydict({"_stream": pa.array([END], pa.int32())})


def decoded(raw: Iterable[pa.RecordBatch], decode: Decode, *, keeps_bytes: bool) -> Iterator[pa.RecordBatch]:
    """Yields all records, decoded by columns. Raises `LeftToSpark` for the first record that it cannot decode."""
    for batch in raw:
        places, columns = decode(batch.column("_value"))
        if len(places) < batch.num_rows:
            raise LeftToSpark
        yield as_decoded(batch, columns, keeps_bytes=keeps_bytes)


@dataclass(frozen=True, slots=True)
class Straight:
    """The part of a Spark task: `records` reads ranges, `decode` returns places and columns of decoded values.

    Stages nothing of a part with a record of another kind. Ranges that were committed before that record stay. A row of
    `LEFT` says so.
    """

    records: Read
    parts: tuple[tuple[StreamRange, ...], ...]
    decode: Decode
    keeps_bytes: bool

    def stage(self, writer: Writer, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stages the parts with these numbers, and yields their lines."""
        for number in each_number(numbers):
            try:
                yield from writer.whole(self._decoded(number))
            except LeftToSpark:
                yield pa.RecordBatch.from_pylist([{"task": number, "stream_id": LEFT}], schema=LINES)

    def commit(self, writer: RangeWriter, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Commits the parts with these numbers, range after range, and yields the outcomes."""
        for number in each_number(numbers):
            try:
                yield from writer.whole(chain(self._decoded(number), [END_ROW]))
            except LeftToSpark:
                yield said(RangeOutcome(LEFT, "left"))

    def _decoded(self, number: int) -> Iterator[pa.RecordBatch]:
        return decoded(self.records(self.parts[number]), self.decode, keeps_bytes=self.keeps_bytes)
