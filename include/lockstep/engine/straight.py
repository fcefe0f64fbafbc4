"""Reads, decodes and writes ranges in one pass, in the worker of a task."""

from __future__ import annotations

from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from lockstep.core.engine import LeftToSpark
from lockstep.core.errors import ReaderDied, UnreadableHeaders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from lockstep.core.offsets import StreamRange
    from lockstep.engine.raw_schema import Read
    from lockstep.engine.sinks.task_writer import TaskWriter
    from lockstep.formats.judged import RecordDecoder

Undecoded = TypeVar("Undecoded")
DecodedPiece = TypeVar("DecodedPiece")


def decode_patiently(raw: Iterable[pa.RecordBatch], decoder: RecordDecoder) -> Iterator[pa.RecordBatch]:
    """Decodes records in a process that must not end. Raises `LeftToSpark` for a batch that keeps the decoder busy."""
    return map(patient(decoder.begun(), decoder.pipeline.record_limits.seconds), raw)


def patient(decode: Callable[[Undecoded], DecodedPiece], seconds: float) -> Callable[[Undecoded], DecodedPiece]:
    """Returns the decoder in a thread. Raises `LeftToSpark` if one piece takes longer: its thread is left alone.

    The thread has values and no connection, so that nothing of the piece is ever written.
    """

    def decoded(given: Undecoded) -> DecodedPiece:
        made: Future[DecodedPiece] = Future()
        Thread(target=_fulfil, args=(made, decode, given), name="decoder", daemon=True).start()
        if not wait([made], seconds).done:
            raise LeftToSpark
        return made.result()

    return decoded


def _fulfil(made: Future[DecodedPiece], decode: Callable[[Undecoded], DecodedPiece], given: Undecoded) -> None:
    try:
        made.set_result(decode(given))
    except BaseException as error:  # noqa: BLE001 - carried over to the thread that waits
        made.set_exception(error)


@dataclass(frozen=True, slots=True)
class Straight:
    """The work of Spark's tasks: `records` reads the ranges of a part, and `decoder` decodes what it reads."""

    records: Read
    parts: tuple[tuple[StreamRange, ...], ...]
    decoder: RecordDecoder

    def write(self, writer: TaskWriter, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the parts with these numbers, and yields what the writer reports of them."""
        for batch in numbers:
            for number in batch.column("id").to_pylist():
                part = self.parts[number]
                yield from writer.of_part(part).direct(self.decoder(self._read(part)))

    def _read(self, part: tuple[StreamRange, ...]) -> Iterator[pa.RecordBatch]:
        """Yields the raw records. Raises `ReaderDied` for one that Spark's source alone can read, and which then does."""
        try:
            yield from self.records(part)
        except UnreadableHeaders as error:
            raise ReaderDied(error.message) from None
