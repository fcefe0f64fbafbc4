"""Decodes in a process that must not end, and leaves what keeps it busy."""

from __future__ import annotations

from concurrent.futures import Future, wait
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from lockstep.core.engine import LeftToSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

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
