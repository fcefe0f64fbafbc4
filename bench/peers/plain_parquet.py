"""Writes a topic into plain Parquet files by the tasks that Lockstep has, and keeps no promise.

The tasks read and decode as for a table of the lake. Nothing is counted, digested, forced to disk or read back, and no
ledger is asked.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Partition

from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.engine.kafka_ranges import KafkaRanges
from lockstep.engine.short_way import join_decoded
from lockstep.engine.sinks.tally import SOURCE_LINE_SCHEMA
from lockstep.engine.sinks.writer import Writer
from lockstep.engine.spark.jobs import jobs
from lockstep.engine.spark.ranges import even_parts
from lockstep.engine.spark.short import written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lockstep.core.pipeline.folder import PipelineFolder
    from peers.contender import Place


@dataclass(frozen=True, slots=True)
class ParquetWriter(Writer):
    """The destination of a task's rows: a file of the folder `table`, with the compression of the lake's files."""

    def whole(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Writes decoded records, and reports none of them. A part that is left to Spark has a line."""
        out = None
        names = [*self.columns, "_stream", "_offset"]
        for batch in join_decoded(batches):
            some = batch.select(names)
            out = out or pq.ParquetWriter(f"{self.table}/{uuid4()}.parquet", some.schema, compression="zstd")
            out.write_batch(some)
        if out:
            out.close()
        yield pa.RecordBatch.from_pylist([], schema=SOURCE_LINE_SCHEMA)


def plain_parquet(place: Place, loaded: PipelineFolder, topic: str, folder: Path, partitions: int) -> float:
    """Returns the seconds from the question for the topic's bounds until all files are closed."""
    folder.mkdir(parents=True)
    writer = ParquetWriter("", str(folder), 0, 0, {}, tuple(column.name for column in loaded.pipeline.columns))
    begin = time.perf_counter()
    consumer = Consumer({"bootstrap.servers": place.bootstrap, "group.id": "bounds"})
    ends = [consumer.get_watermark_offsets(Partition(topic, number))[1] for number in range(partitions)]
    consumer.close()
    ranges = [
        StreamRange(number + 1, OffsetRange(TopicPartition(topic, number), 0, end)) for number, end in enumerate(ends)
    ]
    _, left = written(
        even_parts(ranges, jobs().slots()), loaded, KafkaRanges(place.bootstrap, KafkaOptions()).records, writer
    )
    took = time.perf_counter() - begin
    if left or (rows := _rows(folder)) != sum(ends):
        raise SystemExit(f"plain Parquet: {rows if not left else 'not all'} rows of {sum(ends)} records were written")
    return took


def _rows(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))
