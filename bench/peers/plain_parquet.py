"""Writes a topic into plain Parquet files by the tasks that Lockstep has, and keeps no promise.

The tasks read and decode as for a table of the lake. Nothing is counted, digested, forced to disk or read back, and no
ledger is asked.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Partition

from lockstep.adapters.iceberg.data_file import RowGroups
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.engine.part_reader import PartReader
from lockstep.engine.sinks.tally import SOURCE_LINE_SCHEMA
from lockstep.engine.sinks.writer import Writer
from lockstep.engine.spark.jobs import jobs
from lockstep.engine.spark.part_jobs import written
from lockstep.engine.spark.ranges import even_parts
from lockstep.formats import decoder_of
from peers.meter import Meter
from peers.one_run import Cost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lockstep.core.pipeline.folder import PipelineFolder
    from peers.contender import Place


@dataclass(frozen=True, slots=True)
class ParquetWriter(Writer):
    """The destination of a task's rows: a file of the folder `table`, in groups of rows as the lake's files have them."""

    def whole(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes decoded records, and reports none of them. A part that is left to Spark has a line."""
        out = None
        names = [*self.columns, "_stream", "_offset"]
        for batch in batches:
            some = batch.select(names)
            out = out or RowGroups(f"{self.table}/{uuid4()}.parquet", some.schema)
            out.write(some)
        if out:
            out.close()
        yield pa.RecordBatch.from_pylist([], schema=SOURCE_LINE_SCHEMA)


def plain_parquet(place: Place, loaded: PipelineFolder, topic: str, folder: Path, partitions: int) -> Cost:
    """Returns the cost from the question for the topic's bounds until all files are closed."""
    folder.mkdir(parents=True)
    writer = ParquetWriter("", str(folder), 0, 0, {}, tuple(column.name for column in loaded.pipeline.columns))
    with Meter((os.getpid(),), place.postmaster) as meter:
        begin = time.perf_counter()
        ranges = _ranges(place, topic, partitions)
        read = KafkaRanges(place.bootstrap, KafkaOptions()).records
        parts = tuple(even_parts(ranges, jobs().slots(), may_cut=True))
        written(PartReader(read, parts, decoder_of(loaded, None, keeps_bytes=False)), writer, loaded.pipeline.name)
        took = time.perf_counter() - begin
    records = sum(item.offsets.span for item in ranges)
    if (rows := _rows(folder)) != records:
        raise SystemExit(f"plain Parquet: {rows} rows of {records} records were written")
    return Cost(took, 0, meter.cpu * 1e6 / records, 0)


def _ranges(place: Place, topic: str, partitions: int) -> list[StreamRange]:
    with closing(Consumer({"bootstrap.servers": place.bootstrap, "group.id": "bounds"})) as consumer:
        ends = [consumer.get_watermark_offsets(Partition(topic, number))[1] for number in range(partitions)]
    return [
        StreamRange(number + 1, OffsetRange(TopicPartition(topic, number), 0, end)) for number, end in enumerate(ends)
    ]


def _rows(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))
