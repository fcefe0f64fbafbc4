"""Reads, decodes and writes ranges in one process if every record decodes by columns. Leaves other ranges."""

from __future__ import annotations

from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

from lockstep.core.engine import LeftToSpark
from lockstep.core.errors import UnreadableHeaders
from lockstep.engine.short_way import as_decoded, each_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    import pyarrow as pa

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.engine.short_way import Read
    from lockstep.engine.sinks.task_writer import TaskWriter
    from lockstep.formats import Decode

    Decoded = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def decode_directly(raw: Iterable[pa.RecordBatch], decode: Decode, *, keeps_bytes: bool) -> Iterator[pa.RecordBatch]:
    """Yields all records, decoded by columns. Raises `LeftToSpark` for the first record that it cannot decode."""
    for batch in raw:
        places, columns = decode(batch.column("_value"))
        if len(places) < batch.num_rows:
            raise LeftToSpark
        yield as_decoded(batch, columns, keeps_bytes=keeps_bytes)


def decode_patiently(raw: Iterable[pa.RecordBatch], decode: Decode, folder: PipelineFolder) -> Iterator[pa.RecordBatch]:
    """Yields the same in a process that must not end. Raises `LeftToSpark` if a piece keeps the decoder busy, too."""
    seconds = folder.pipeline.record_limits.seconds
    return decode_directly(raw, patient(decode, seconds), keeps_bytes=folder.quarantines)


def patient(decode: Decode, seconds: float) -> Decode:
    """Returns the decoder in a thread. Raises `LeftToSpark` if one piece takes longer: its thread is left alone.

    The thread has values and no connection, so that nothing of the piece is ever written.
    """

    def decoded(values: pa.Array) -> tuple[np.ndarray, pa.RecordBatch]:
        made: Future[tuple[np.ndarray, pa.RecordBatch]] = Future()
        Thread(target=_fulfil, args=(made, decode, values), name="decoder", daemon=True).start()
        if not wait([made], seconds).done:
            raise LeftToSpark
        return made.result()

    return decoded


def _fulfil(made: Future[tuple[np.ndarray, pa.RecordBatch]], decode: Decode, values: pa.Array) -> None:
    try:
        made.set_result(decode(values))
    except BaseException as error:  # noqa: BLE001 - carried over to the thread that waits
        made.set_exception(error)


@dataclass(frozen=True, slots=True)
class Straight:
    """The part of a Spark task: `records` reads ranges, `decoded` turns raw records into decoded ones.

    Stages nothing of a part with a record of another kind. Ranges that were committed before that record stay. A row of
    `LEFT_OUT` says so.
    """

    records: Read
    parts: tuple[tuple[StreamRange, ...], ...]
    decoded: Decoded

    def write(self, writer: TaskWriter, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the parts with these numbers, and yields what the writer reports of them."""
        for number in each_number(numbers):
            raw = self.records(self.parts[number])
            try:
                yield from writer.of_part(self.parts[number]).direct(self.decoded(raw))
            except (LeftToSpark, UnreadableHeaders):
                yield writer.left(number)
