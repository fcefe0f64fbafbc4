"""Reads ranges of a log as Arrow, in the task that works on them: exactly their records, in order."""

from __future__ import annotations

import gc
import time
from bisect import bisect_left
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lockstep.adapters.kafka.login import login_settings
from lockstep.adapters.kafka.reading import (
    MOST_FETCHED_BYTES,
    Fetched,
    closing_soon,
    fetch_size,
    is_past,
    refuse_malformed,
    size_of,
)
from lockstep.core.errors import Unreachable
from lockstep.core.isolation import READER_BUSY_TWICE, READER_ENDED_TWICE
from lockstep.core.pipeline.limits import MEGABYTE, RecordLimits
from lockstep.engine.kafka_raw import by_partition, cut_large, errors_of, hide_records, is_read, log_place, raw_records

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pyarrow as pa

    from lockstep.core.kafka_options import KafkaOptions
    from lockstep.core.offsets import StreamRange
    from lockstep.core.staging import StageWork
    from lockstep.engine.kafka_raw import Cut, GoOn, Held, Hidden, Part, Place

    Waiting = dict[Place, StreamRange]


RECORDS_PER_ARROW_BATCH = 10_000  # records of an Arrow batch
OFFSETS_READ_TOGETHER = RECORDS_PER_ARROW_BATCH  # offsets that are read together and kept until all have come
BYTES_READ_TOGETHER = 32 * MEGABYTE  # of their records. Ranges with more are read one after another.
FETCH_PATIENCE = 60.0  # seconds in which nothing is fetched
LOOK = 0.2
FETCH_WAIT_MS = 10  # a range's tail waits this long for bytes that will not come
CONSUMER_SETTINGS: dict[str, Any] = {
    "group.id": "lockstep-stage",  # none is joined: partitions are assigned
    "enable.auto.commit": False,
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "check.crcs": True,
    "log_level": 0,
}
FETCH_TUNING: dict[str, Any] = {
    "fetch.wait.max.ms": FETCH_WAIT_MS,
    "fetch.queue.backoff.ms": 5,  # else a reader waits a second because the queue was full for a moment
    "queued.max.messages.kbytes": 32_768,
    "receive.message.max.bytes": MOST_FETCHED_BYTES,
}
# Errors that do not pass within a minute.
FATAL_ERRORS = {
    KafkaError._AUTHENTICATION,  # noqa: SLF001
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - the log has no such offset
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}


@dataclass(frozen=True, slots=True)
class KafkaRanges:
    """A broker's address and the options to log in there. Executors get it by value.

    A record past the `limits` comes without its bytes. `_bytes` is its true size, and tells too many headers. Without
    limits, each record comes as it is. `hidden` records come without their bytes. Each has its reason.
    """

    bootstrap: str
    options: KafkaOptions
    limits: RecordLimits | None = RecordLimits()  # noqa: RUF009 - it is frozen
    hidden: Hidden = field(default_factory=dict)

    def hiding(self, work: StageWork) -> Self:
        """Returns the reader without the bytes of the records that the work hides."""
        hidden = {
            (*log_place(item), item.offsets.from_offset): READER_BUSY_TWICE if item in work.busy else READER_ENDED_TWICE
            for item in work.hidden
        }
        return replace(self, hidden=hidden)

    def records(
        self, ranges: Sequence[StreamRange], go_on: GoOn = lambda: None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yields every committed record of the ranges as raw records, one stream after another."""
        for held, read, cut in self.messages(ranges, go_on):
            yield from raw_records(held, read, cut)

    def messages(self, ranges: Sequence[StreamRange], go_on: GoOn) -> Iterator[Part]:
        """Yields the messages of the ranges by topic and partition, with their ranges and the sizes of cut records.

        Returns when each range is read to its end. Raises `BadData` for a batch that cannot be read. Raises
        `Unreachable` if the log lacks an offset of a range, or gives nothing for a minute. Passes on errors of `go_on`.
        """
        fetched = Fetched()
        tuning = FETCH_TUNING | fetch_size(item.offsets.span for item in ranges) | login_settings(self.options)
        settings = tuning | CONSUMER_SETTINGS | fetched.settings | {"bootstrap.servers": self.bootstrap}
        with closing_soon(Consumer(settings)) as consumer, _seldom_collected():
            for together in _together(ranges):
                yield from self._read(consumer, fetched, together, go_on)

    def _read(self, consumer: Consumer, fetched: Fetched, ranges: Sequence[StreamRange], go_on: GoOn) -> Iterator[Part]:
        """Yields one range as its records come, or several together when they are complete, if they are small."""
        waiting = {log_place(item): item for item in ranges}
        held: Held = {place: [] for place in waiting}
        cut: Cut = {}
        consumer.assign([TopicPartition(*place, item.offsets.from_offset) for place, item in waiting.items()])
        heard, size = time.monotonic(), 0
        while waiting:
            go_on()
            first = consumer.poll(LOOK)
            # A message without a value is false.
            found = [] if first is None else [first, *consumer.consume(RECORDS_PER_ARROW_BATCH - 1, timeout=0)]
            if not found:
                _drop_passed(consumer, waiting)
            taken = self._taken(found, waiting, held, cut)
            if waiting and (ended := [at for at in consumer.assignment() if (at.topic, at.partition) not in waiting]):
                consumer.incremental_unassign(ended)  # else their logs go on coming while others are waited for
            if taken or fetched.has_moved():
                heard = time.monotonic()
            elif time.monotonic() - heard > FETCH_PATIENCE and waiting:
                raise self._silent(consumer, next(iter(waiting.values())))
            if len(ranges) == 1:
                yield held, ranges, cut
                held = {place: [] for place in held}
            elif (size := size + sum(map(size_of, taken))) > BYTES_READ_TOGETHER:
                for item in ranges:  # nothing of them has been yielded
                    yield from self._read(consumer, fetched, [item], go_on)
                return
        yield held, ranges, cut

    def _taken(self, found: Sequence[Message], waiting: Waiting, held: Held, cut: Cut) -> list[Message]:
        """Adds records to their ranges, and removes ranges at their end from `waiting`. Returns those that it added."""
        taken: list[Message] = []
        topics = {topic for topic, _ in held}
        for at, all_ in by_partition(found, topics.pop() if len(topics) == 1 else None):
            item = waiting.get(at)
            if item is None and at in held:
                continue  # it has been read to its end
            errors = errors_of(all_)
            until = item.offsets.until_offset if item else 0  # for what was fetched past a range's end
            for place, error in errors.items():
                if is_read(all_[:place], until):
                    break  # what comes behind a range's end does not concern it
                if not is_past(all_[place], until):
                    refuse_malformed(all_[place], self.bootstrap)
                if error.code() in FATAL_ERRORS or error.fatal():  # not the log's end, nor a broker that comes and goes
                    raise self._away(error.str(), item)
            if item is None:
                continue
            messages = [each for place, each in enumerate(all_) if place not in errors] if errors else all_
            wanted = messages[: bisect_left(messages, until, key=Message.offset)]
            cut_large(wanted, self.limits, cut)
            hide_records(wanted, self.hidden, cut)
            held[at] += wanted
            taken += wanted
            if any(is_past(all_[n], until) for n in errors) or any(is_past(each, until - 1) for each in messages[-1:]):
                del waiting[at]
        return taken

    def _silent(self, consumer: Consumer, item: StreamRange) -> Unreachable:
        at = max(_position(consumer, item), item.offsets.from_offset)
        return self._away(f"nothing came from offset {at} on for {FETCH_PATIENCE:.0f} s", item)

    def _away(self, what: str, item: StreamRange | None) -> Unreachable:
        which = str(item.offsets) if item else "the topic"
        return Unreachable(f"{which} could not be read from Kafka at {self.bootstrap}: {self.options.hidden(what)}")


def _drop_passed(consumer: Consumer, waiting: Waiting) -> None:
    """Drops ranges whose end the consumer has passed, even if the last records before it are invisible."""
    for place, item in list(waiting.items()):
        if _position(consumer, item) >= item.offsets.until_offset:
            del waiting[place]


def _position(consumer: Consumer, item: StreamRange) -> int:
    """Returns the offset behind the last consumed one, markers included. Negative before the first."""
    return int(consumer.position([TopicPartition(*log_place(item))])[0].offset)


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Collects garbage less often, because Python would search all new messages for cycles in vain."""
    usual = gc.get_threshold()
    gc.set_threshold(10 * RECORDS_PER_ARROW_BATCH, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _together(ranges: Sequence[StreamRange]) -> Iterator[list[StreamRange]]:
    """Groups small ranges, because each alone costs a round trip to the broker. Leaves a big one by itself."""
    some: list[StreamRange] = []
    offsets = 0
    for item in ranges:
        offsets += item.offsets.span
        if some and offsets > OFFSETS_READ_TOGETHER:
            yield some
            some, offsets = [], item.offsets.span
        some.append(item)
    if some:
        yield some
