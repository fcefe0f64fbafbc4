"""Serves given records as a log of one partition, to the steps and to readers, without Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.kafka.reading import MILLISECOND, SINCE
from lockstep.core.offsets import Bounds, TopicView
from lockstep.engine.kafka_ranges import RECORDS_PER_ARROW_BATCH, KafkaRanges
from lockstep.engine.kafka_raw import cut_large, hide_records, log_place, raw_records

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import pyarrow as pa

    from lockstep.core.changes.tried import Record
    from lockstep.core.offsets import StreamRange
    from lockstep.engine.kafka_raw import Cut

SAMPLE_PARTITION = 0
FIRST_LINE = 1  # a record's offset is the number of its line


class SampleLog(Broker):
    """The broker of a topic that holds so many given records, and of no other topic."""

    def __init__(self, records: int) -> None:
        super().__init__("the given records")
        self._records = records

    def view(self, topic: str) -> TopicView:
        """Returns the bounds of the one partition."""
        return TopicView("sample", topic, "sample", {SAMPLE_PARTITION: Bounds(FIRST_LINE, FIRST_LINE + self._records)})


@dataclass(frozen=True, slots=True)
class SampleRanges(KafkaRanges):
    """A reader of given records. It gives them as a reader of Kafka would. Executors get them by value.

    `stamp` is the time, in milliseconds, of records that have none.
    """

    given: tuple[Record, ...] = ()
    stamp: int = 0

    def records(
        self, ranges: Sequence[StreamRange], go_on: Callable[[], None] = lambda: None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yields the records of these ranges as raw records."""
        for item in ranges:
            for begin in range(item.offsets.from_offset, item.offsets.until_offset, RECORDS_PER_ARROW_BATCH):
                go_on()
                end = min(begin + RECORDS_PER_ARROW_BATCH, item.offsets.until_offset)
                cut: Cut = {}
                messages = [self._message(item.offsets.topic_partition.topic, offset) for offset in range(begin, end)]
                cut_large(messages, self.limits, cut)
                hide_records(messages, self.hidden, cut)
                yield from raw_records({log_place(item): messages}, [item], cut)

    def _message(self, topic: str, offset: int) -> Message:
        record = self.given[offset - FIRST_LINE]
        stamp = self.stamp if record.timestamp is None else (record.timestamp.astimezone(UTC) - SINCE) // MILLISECOND
        return Message(
            topic=topic,
            partition=SAMPLE_PARTITION,
            offset=offset,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            timestamp=(TIMESTAMP_CREATE_TIME, stamp),
        )
