"""Reads records that the log has no more from archived files, and looks times up in them."""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING

from lockstep.adapters.archive.store import ArchiveStore
from lockstep.adapters.kafka.topics import first_of, read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.ledger.batch.archived import files_of, first_files_at, with_archive

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from confluent_kafka import Message
    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import LogView, OffsetRange, StreamRange, TopicPartition
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.retention.archive import ArchivedFile
    from lockstep.engine.archived_ranges import ArchivedRanges


def archived_messages(cur: cursor, broker: Broker, pipeline: Pipeline, item: StreamRange) -> Iterator[Message]:
    """Yields the records of a range that files hold, in order. Ends at the first offset that no file holds."""
    yield from messages_in_files(broker, pipeline, files_of_range(cur, pipeline, item), item.offsets)


def files_of_range(cur: cursor, pipeline: Pipeline, item: StreamRange) -> tuple[ArchivedFile, ...]:
    """Returns the files that hold offsets of a range, in order. There are none without an archive."""
    return files_of(cur, [item]) if pipeline.archive else ()


def messages_in_files(
    broker: Broker, pipeline: Pipeline, files: Sequence[ArchivedFile], offsets: OffsetRange
) -> Iterator[Message]:
    """Yields the records of a range that these files hold, in order. Ends at the first offset that none of them holds."""
    at, until, reader = offsets.from_offset, offsets.until_offset, _reader(broker, pipeline)
    for file in files:
        if file.offsets.from_offset <= at < (end := min(until, file.offsets.until_offset)):
            yield from chain.from_iterable(reader.messages_of(file, at, end))
            at = end


def read_held(conn: connection, broker: Broker, pipeline: Pipeline) -> LogView:
    """Reads the pipeline's topics as they are now, with what files hold of them."""
    seen = read_topics(broker, pipeline)
    with transaction(conn, READER) as cur:
        return with_archive(cur, pipeline, seen)


def first_held(
    conn: connection, broker: Broker, pipeline: Pipeline, view: LogView, moment: datetime
) -> dict[TopicPartition, tuple[int, datetime | None]]:
    """Returns the first offset of each partition at or past a moment, with its record's time.

    Looks at archived files and at the log. Without one, returns the stable end and None.
    """
    found = first_of(broker, view, moment)
    for at, first in _first_archived(conn, broker, pipeline, view, moment).items():
        found[at] = min(first, found[at], key=itemgetter(0))
    return found


def _first_archived(
    conn: connection, broker: Broker, pipeline: Pipeline, view: LogView, moment: datetime
) -> dict[TopicPartition, tuple[int, datetime]]:
    """Returns, per partition, the first archived offset at or past a moment, with its record's time.

    Looks at files alone that begin below log start. Leaves out partitions without such a record. Reads one file of each.
    """
    below = {
        at: bounds.log_start
        for at, bounds in view.partitions.items()
        if bounds.archived and bounds.archived[0][0] < bounds.log_start
    }
    if pipeline.archive is None or not below:
        return {}
    with transaction(conn, READER) as cur:
        files = first_files_at(cur, pipeline, view, below, moment)
    reader = _reader(broker, pipeline)
    found = {file.offsets.topic_partition: reader.first_at(file, moment) for file in files}
    return {at: first for at, first in found.items() if first}


def _reader(broker: Broker, pipeline: Pipeline) -> ArchivedRanges:
    from lockstep.engine.archived_ranges import ArchivedRanges  # noqa: PLC0415 - few look below log start

    store = ArchiveStore(pipeline.archive.place) if pipeline.archive else None
    return ArchivedRanges(broker.bootstrap, broker.options, pipeline=pipeline.name, store=store)
