"""Reads ranges from archived files as from Kafka, through the same code. The rest of a range comes from the log."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lockstep.adapters.archive.store import ArchiveStore
from lockstep.adapters.kafka.reading import moment_of_stamp, stamp_of_moment
from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange, StreamRange
from lockstep.core.proof.accounting import Digest
from lockstep.engine.archive_file import messages_in
from lockstep.engine.kafka_ranges import RECORDS_PER_ARROW_BATCH, KafkaRanges
from lockstep.engine.kafka_raw import cut_large, hide_records, log_place, raw_records

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from datetime import datetime

    from confluent_kafka import Message

    from lockstep.core.retention.archive import Archive, ArchivedFile
    from lockstep.core.staging import StageWork
    from lockstep.engine.kafka_raw import Cut


@dataclass(frozen=True, slots=True)
class ArchivedRanges(KafkaRanges):
    """A reader of ranges that begin in archived files and go on in Kafka. Executors get it by value."""

    pipeline: str = ""
    store: ArchiveStore | None = None
    files: tuple[ArchivedFile, ...] = ()

    def records(
        self, ranges: Sequence[StreamRange], go_on: Callable[[], None] = lambda: None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yields every committed record of the ranges as raw records, one stream after another.

        Raises `Refusal` for a file that is missing, or not the one that was written. Raises as Kafka's reader does.
        """
        for item in ranges:
            where, at, until = item.offsets.topic_partition, item.offsets.from_offset, item.offsets.until_offset
            for file in self.files:
                if file.offsets.topic_partition != where or not file.offsets.from_offset <= at < min(
                    until, file.offsets.until_offset
                ):
                    continue
                end = min(until, file.offsets.until_offset)
                for messages in self.messages_of(file, at, end):
                    go_on()
                    cut: Cut = {}
                    cut_large(messages, self.limits, cut)
                    hide_records(messages, self.hidden, cut)
                    yield from raw_records({log_place(item): messages}, [item], cut)
                at = end
            if at < until:
                rest = StreamRange(item.stream_id, OffsetRange(where, at, until))
                yield from KafkaRanges.records(self, [rest], go_on)

    def messages_of(self, file: ArchivedFile, from_offset: int, until_offset: int) -> Iterator[list[Message]]:
        """Yields the messages of a file within these offsets, after its bytes and offsets are proved to be its own."""
        for group in self.read_file(file):
            inside = pc.and_(
                pc.greater_equal(group.column("offset"), from_offset), pc.less(group.column("offset"), until_offset)
            )
            found = messages_in(group.filter(inside), file.offsets)
            if found:
                yield found

    def first_at(self, file: ArchivedFile, moment: datetime) -> tuple[int, datetime] | None:
        """Returns the first offset of a file at or past a moment, with its record's time, or None."""
        wanted = stamp_of_moment(moment)
        for group in self.read_file(file):
            late = group.filter(pc.greater_equal(group.column("timestamp"), wanted))
            if late.num_rows:
                return late.column("offset")[0].as_py(), moment_of_stamp(late.column("timestamp")[0].as_py())
        return None

    def read_file(self, file: ArchivedFile) -> list[pa.RecordBatch]:
        """Returns the records of a file. Raises `Refusal` if it is missing, damaged, or another file."""
        if self.store is None:
            raise self._refused(file, "no archive is set")
        content = self.store.content(file.path)
        if content is None:
            raise self._refused(file, "it is missing")
        if (found := hashlib.sha256(content).hexdigest()) != file.sha256:
            raise self._refused(file, f"its sha256 is {found[:16]}, written was {file.sha256[:16]}")
        return self._proved(file, content)

    def _proved(self, file: ArchivedFile, content: bytes) -> list[pa.RecordBatch]:
        """Returns the records of a file's bytes. Their offsets must have the digest that the ledger has."""
        try:
            opened = pq.ParquetFile(pa.BufferReader(content))
            batches = list(opened.iter_batches(RECORDS_PER_ARROW_BATCH))
        except (pa.ArrowException, OSError) as error:
            raise self._refused(file, f"it is no Parquet file ({type(error).__name__})") from None
        offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        digest = Digest.of(offsets, file.offsets.from_offset)
        if (digest.n, digest.sum, digest.squares) != (file.records, *file.digest):
            raise self._refused(file, f"it holds {digest.n} records, written were {file.records}")
        return batches

    def _refused(self, file: ArchivedFile, why: str) -> Refusal:
        place = self.store.shown if self.store else "archive"
        return Refusal(
            f"{file.offsets}: the archived file {place}/{file.path} cannot be read: {why}",
            next_command=f"lockstep archive {self.pipeline} --check",
        )


def with_files(reader: KafkaRanges, work: StageWork, archive: Archive) -> ArchivedRanges:
    """Returns the reader that reads a work's archived files first."""
    return ArchivedRanges(
        reader.bootstrap,
        reader.options,
        reader.limits,
        reader.hidden,
        pipeline=work.pipeline,
        store=ArchiveStore(archive.place),
        files=work.archived,
    )
