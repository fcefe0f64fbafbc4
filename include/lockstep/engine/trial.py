"""Runs a trial: tasks read, decode and write as they would for Postgres, and drop the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lockstep.engine.part_reader import numbers_in
from lockstep.engine.sinks.copy_binary import copy_binary
from lockstep.engine.sinks.spark_task import attempt_id
from lockstep.engine.sinks.writer import accepted, unfiltered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lockstep.engine.part_reader import PartReader

TASK = "task bigint"


def intake(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the records that a transform gets: neither rejects nor deletions."""
    for batch in map(unfiltered, batches):
        aside = pc.or_(pc.is_valid(batch.column("_reason")), batch.column("_deleted"))
        yield accepted(batch.filter(pc.invert(aside)))


def swallowed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Makes the rows that COPY would take, drops them, and yields this task's number."""
    for batch in batches:
        for _ in copy_binary(batch):
            pass
    yield pa.RecordBatch.from_pydict({"task": pa.array([attempt_id()], pa.int64())})


def swallow_parts(reader: PartReader, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reads and decodes the parts with these numbers, as `swallowed` takes them."""
    yield from swallowed(batch for number in numbers_in(numbers) for batch in reader.decoded(number))
