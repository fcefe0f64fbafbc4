"""Chooses the reader of a work, and reads and decodes its parts, each in a task of Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lockstep.core.offsets import StreamRange
    from lockstep.core.retention.archive import Archive
    from lockstep.core.staging import StageWork
    from lockstep.engine.kafka_ranges import KafkaRanges
    from lockstep.engine.raw_schema import Read
    from lockstep.engine.sinks.task_writer import TaskWriter
    from lockstep.formats.judged import RecordDecoder

    Intake = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

REPORT = "lockstep_report"  # the one column of what tasks answer
EMPTY_AT_ONCE = 100_000


def reader_of(work: StageWork, kafka: KafkaRanges, archive: Archive | None) -> KafkaRanges:
    """Returns the reader of a work's ranges, without the bytes of the records that it hides. Every engine asks here."""
    kafka = kafka.hiding(work) if work.hidden else kafka
    if archive is None or not work.archived:
        return kafka
    from lockstep.engine.archived_ranges import with_files  # noqa: PLC0415 - few batches begin below log start

    return with_files(kafka, work, archive)


@dataclass(frozen=True, slots=True)
class PartReader:
    """The work of Spark's tasks: `records` reads the ranges of a part, and `decoder` decodes what it reads."""

    records: Read
    parts: tuple[tuple[StreamRange, ...], ...]
    decoder: RecordDecoder

    def decoded(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yields the decoded records of the part with this number, one stream after another."""
        yield from self.decoder(self.records(self.parts[number]))

    def given(self, intake: Intake, number: int) -> Iterator[pa.RecordBatch]:
        """Yields what a transform is given of a part. The intake counts the records, and keeps rejects to itself."""
        yield from intake(self.decoded(number))

    def write(self, writer: TaskWriter, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes the parts with these numbers. Yields an empty row for each record, and then the writer's reports.

        Spark counts the rows. It keeps none of the empty ones.
        """
        for number in numbers_in(numbers):
            sizes: list[int] = []
            reports = list(writer.of_part(self.parts[number]).direct(_noted(self.decoded(number), sizes)))
            yield from empty_rows(sum(sizes))
            yield from map(packed, reports)


def empty_rows(records: int) -> Iterator[pa.RecordBatch]:
    """Yields so many rows without a report. They take some four bytes each."""
    for begin in range(0, records, EMPTY_AT_ONCE):
        yield pa.RecordBatch.from_pydict({REPORT: pa.nulls(min(EMPTY_AT_ONCE, records - begin), pa.binary())})


def packed(report: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a row that holds the rows of a report, whatever their columns are."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, report.schema) as stream:
        stream.write_batch(report)
    return pa.RecordBatch.from_pydict({REPORT: pa.array([out.getvalue().to_pybytes()], pa.binary())})


def unpacked(report: bytes) -> list[dict[str, Any]]:
    """Returns the rows of a packed report."""
    rows: list[dict[str, Any]] = pa.ipc.open_stream(report).read_all().to_pylist()
    return rows


def _noted(batches: Iterable[pa.RecordBatch], sizes: list[int]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sizes.append(batch.num_rows)
        yield batch


def numbers_in(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Yields the numbers of the parts that a task works on."""
    for batch in batches:
        yield from batch.column("id").to_pylist()
