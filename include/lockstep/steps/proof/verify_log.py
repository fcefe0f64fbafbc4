"""Reads the log again for deep verify, chunk by chunk, with a consumer that shares nothing with Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.reading import record_headers, size_of
from lockstep.core.errors import UnreadableHeaders
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.proof.verification import NO_COMMAND, Share
from lockstep.formats.second_reading import RereadRecord, SecondReading, undecodable
from lockstep.ledger.proof import verify as ledger
from lockstep.steps.inspect.archived_records import archived_messages
from lockstep.steps.rerun.remade import NO_SPARK

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import Bounds, LogView
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.proof.verification import BatchesSince, Segment, Unit
    from lockstep.core.registry import Registry
    from lockstep.steps.rerun.remade import Remade
    from lockstep.targets.stores.delivery import Results

DECODING = ("format", "envelope", "transform", "decode")  # the parts of a definition that turn bytes into values
# The other parts, and those of a target, that make rows or rejects of what a transform gives.
REMAKING = ("expectations", "on_violation", "event_time", "record_limits")
OF_TARGET = ("transform", "key", "order_by")
CHUNK_RECORDS, CHUNK_BYTES = 10_000, 32 * 2**20  # whichever comes first, because so much is in memory at once


@dataclass(frozen=True, slots=True)
class Log:
    """The log and one target, with the code that decodes the records and the place of the target's rows.

    `folder` decodes. `pipeline` is the folder's, with this target alone. `alike` are the hashes of the definitions that
    decode as today's does. `results` is the place of results that move apart from the offsets. With a `since`, those
    batches alone are looked at. `remade` is what a transform makes again, and `place` that of the target in the definition.
    """

    conn: connection
    cur: cursor
    broker: Broker
    folder: PipelineFolder
    pipeline: Pipeline
    view: LogView
    alike: frozenset[str]
    registry: Registry | None = None
    results: Results | None = None
    since: BatchesSince | None = None
    remade: Remade | None = None
    place: int = 0

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns that reach the target, with a transform those that it makes."""
        return self.remade.columns[self.place] if self.remade else self.pipeline.columns

    def segments(self, stream: Any, target: Target | None = None) -> list[Segment]:
        """Returns the segments of a stream to look at, in order. Counts are those of one target of several."""
        found = ledger.committed_segments(self.cur, stream.stream_id, target)
        return self.since.among(found) if self.since else found

    def share_of(self, ever: Sequence[Any], compared: int, others: Collection[int]) -> Share:
        """Returns how many segments of all streams, also of logs that are gone, these `compared` ones are.

        `others` are the batches that another definition decoded.
        """
        of = sum(len(self.segments(stream)) for stream in ever)
        return Share(compared, of, "segments", min(others, default=None))

    def none_of(self, rows: int, unit: Unit = "rows") -> Share | None:
        """Returns the share of a check that a transform keeps from comparing anything."""
        if self.remade is None:
            return None
        if self.results:
            return Share(0, rows, unit, next_command=NO_COMMAND)
        return Share(0, rows, unit, self.remade.oldest_other, self.remade.next_command)

    @property
    def undecodable(self) -> str | None:
        """Returns why contents cannot be compared at all, or None if they can."""
        if self.remade is not None:
            return f"{NO_SPARK}, and they are in another store" if self.results else self.remade.why_not
        return undecodable(self.folder, self.registry)

    def reading(self) -> SecondReading:
        """Returns the decoder that reads the records a second time."""
        return SecondReading(self.folder, self.registry)

    def log_start(self, stream: Any) -> int:
        """Returns the offset of a stream from which on the log holds everything, or the archive before it."""
        return self._bounds(stream).whole_from

    def holds(self, stream: Any, segment: Segment) -> bool:
        """Returns True if log and archive together hold the whole segment."""
        return self._bounds(stream).holds(segment.from_offset, segment.until_offset)

    def chunks(self, stream: Any, segment: Segment) -> Iterator[tuple[int, int, list[RereadRecord]]]:
        """Yields the segment's records that log or archive still hold, in chunks that tile their offsets.

        A chunk is (from, until, records).
        """
        is_whole = self.holds(stream, segment)
        begin, size = segment.from_offset if is_whole else max(segment.from_offset, self.log_start(stream)), 0
        chunk: list[RereadRecord] = []
        for message in self._messages(stream, begin, segment.until_offset):
            if len(chunk) == CHUNK_RECORDS or size >= CHUNK_BYTES:
                yield begin, message.offset(), chunk
                begin, chunk, size = message.offset(), [], 0
            chunk.append(record := _record(message, self.folder.pipeline.record_limits.bytes))
            size += len(record.key or b"") + len(record.value or b"")
        yield begin, segment.until_offset, chunk

    def _messages(self, stream: Any, begin: int, until: int) -> Iterator[Any]:
        """Yields the records of archived files, up to where those end, and the log's records behind them."""
        if begin < until and begin < self._bounds(stream).log_start:
            where = OffsetRange(TopicPartition(stream.topic, stream.partition), begin, until)
            yield from archived_messages(self.cur, self.broker, self.pipeline, StreamRange(stream.stream_id, where))
            for low, high in self._bounds(stream).archived:
                begin = min(high, until) if low <= begin < high else begin
        yield from self.broker.records(stream.topic, stream.partition, begin, until)

    def _bounds(self, stream: Any) -> Bounds:
        return self.view[TopicPartition(stream.topic, stream.partition)]


def _record(message: Any, most: int) -> RereadRecord:
    where, stamp = (message.partition(), message.offset()), message.timestamp()[1]
    topic = message.topic()
    try:
        if size_of(message) > most:
            return RereadRecord(*where, None, None, None, stamp, withheld=True, topic=topic)
        return RereadRecord(*where, message.key(), message.value(), record_headers(message), stamp, topic=topic)
    except UnreadableHeaders:
        return RereadRecord(*where, None, None, None, stamp, withheld=True, topic=topic)


def decoded_alike(folder: PipelineFolder, definitions: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Returns the definitions that decode a record as today's does, and those that make the same rows of it."""
    today = json.loads(json.dumps(folder.document()))
    wanted = _parts_of(today, makes_rows=folder.transforms)
    return frozenset(
        name for name, document in definitions.items() if _parts_of(document, makes_rows=folder.transforms) == wanted
    )


def _parts_of(document: Mapping[str, Any], *, makes_rows: bool) -> list[Any]:
    """Returns the parts of a definition that decode a record, and those that make it rows or a reject."""
    parts = [document.get(part) for part in DECODING]
    if makes_rows:
        told = document.get("target")
        targets = told if isinstance(told, list) else [told or {}]
        parts += [document.get(part) for part in REMAKING]
        parts += [each.get(part) for each in targets for part in OF_TARGET]
    return parts
