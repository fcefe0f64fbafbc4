"""Reads ranges of a log as Arrow, in the task that works on them: exactly their records, in order."""

from __future__ import annotations

import gc
import time
from bisect import bisect_left
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lockstep.adapters.kafka_epochs import LAST_STAMP
from lockstep.adapters.kafka_reading import MOST_BYTES, Fetched, refuse_malformed, size_of
from lockstep.core.errors import Unreachable
from lockstep.core.record_limits import RecordLimits
from lockstep.formats.rows import text_of
from lockstep.staging.short_way import RAW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lockstep.core.kafka_options import KafkaOptions
    from lockstep.core.offsets import StreamRange

    Held = dict[int, list[Message]]
    Cut = dict[tuple[int, int], int]

AT_ONCE = 10_000  # records of an Arrow batch
FEW = 250  # offsets that are read together and kept until all have come. Each may have a megabyte.
PATIENCE = 60.0  # seconds in which nothing is fetched
LOOK = 0.2
FETCH_WAIT_MS = 10  # a range's tail waits this long for bytes that will not come
SETTINGS: dict[str, Any] = {
    "group.id": "lockstep-stage",  # none is joined: partitions are assigned
    "enable.auto.commit": False,
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "check.crcs": True,
    "log_level": 0,
}
TUNING: dict[str, Any] = {
    "fetch.wait.max.ms": FETCH_WAIT_MS,
    "fetch.queue.backoff.ms": 5,  # else a reader waits a second because the queue was full for a moment
    "queued.max.messages.kbytes": 32_768,
    "max.partition.fetch.bytes": 4_194_304,
    "receive.message.max.bytes": MOST_BYTES,
}
END = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's own name
# Errors that do not pass within a minute.
FATAL = {
    KafkaError._AUTHENTICATION,  # noqa: SLF001
    KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 - the log has no such offset
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}


@dataclass(frozen=True, slots=True)
class KafkaRanges:
    """A broker's address and the options to log in there. Executors get it by value.

    A record of more than `most` bytes comes without its bytes. `_bytes` is its true size.
    """

    bootstrap: str
    options: KafkaOptions
    most: int = RecordLimits().bytes

    def records(
        self, ranges: Sequence[StreamRange], go_on: Callable[[], None] = lambda: None
    ) -> Iterator[pa.RecordBatch]:
        """Yields every committed record of ranges of one topic as raw records, one stream after another.

        Returns when each range is read to its end. Raises `BadData` for a batch that cannot be read. Raises
        `Unreachable` if the log lacks an offset of a range, or gives nothing for a minute. Calls `go_on` several times
        a second, and passes on its errors.
        """
        fetched = Fetched()
        settings = TUNING | self.options.for_librdkafka() | SETTINGS | {"bootstrap.servers": self.bootstrap}
        with closing(Consumer(settings | fetched.settings)) as consumer, _seldom_collected():
            for together in _together(ranges):
                yield from self._read(consumer, fetched, together, go_on)

    def _read(
        self, consumer: Consumer, fetched: Fetched, ranges: Sequence[StreamRange], go_on: Callable[[], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yields one range as its records come, or several together when they are complete."""
        waiting = {item.offsets.topic_partition.partition: item for item in ranges}
        held: Held = {partition: [] for partition in waiting}
        cut: Cut = {}
        topic = ranges[0].offsets.topic_partition.topic
        consumer.assign([TopicPartition(topic, p, item.offsets.from_offset) for p, item in waiting.items()])
        heard = time.monotonic()
        while waiting:
            go_on()
            first = consumer.poll(LOOK)
            # A message without a value is false.
            found = [] if first is None else [first, *consumer.consume(AT_ONCE - 1, timeout=0)]
            if not found:
                _drop_passed(consumer, waiting)
            if self._taken(found, waiting, held, cut) or fetched.has_moved():
                heard = time.monotonic()
            elif time.monotonic() - heard > PATIENCE and waiting:
                item = next(iter(waiting.values()))
                at = max(_position(consumer, item), item.offsets.from_offset)
                raise self._away(f"nothing came from offset {at} on for {PATIENCE:.0f} s", item)
            if len(ranges) == 1:
                yield from _raw(held, ranges, cut)
                held = {partition: [] for partition in held}
        yield from _raw(held, ranges, cut)

    def _taken(self, found: Sequence[Message], waiting: dict[int, StreamRange], held: Held, cut: Cut) -> bool:
        """Adds records to their ranges, and removes ranges at their end from `waiting`. Returns True if any came."""
        news = False
        for partition, all_ in _by_partition(found):
            item = waiting.get(partition)
            errors = {}
            if any(map(Message.error, all_)):
                errors = {place: error for place, error in enumerate(map(Message.error, all_)) if error is not None}
            for place, error in errors.items():
                refuse_malformed(all_[place], self.bootstrap)
                self._require_bearable(error, item)
            if item is None:  # what was fetched past a range's end
                continue
            messages = [each for place, each in enumerate(all_) if place not in errors] if errors else all_
            until = item.offsets.until_offset
            wanted = messages[: bisect_left(messages, until, key=Message.offset)]
            self._cut(wanted, cut)
            held[partition] += wanted
            news |= bool(wanted)
            ends = [all_[place].offset() for place, error in errors.items() if error.code() == END]
            if max([each.offset() + 1 for each in messages[-1:]] + ends, default=0) >= until:
                del waiting[partition]
        return news

    def _cut(self, messages: Sequence[Message], cut: Cut) -> None:
        """Removes the bytes of records that have too many.

        Does so at once, because the next record may have as many.
        """
        # Headers are read only if there are any. Lengths alone cost next to nothing.
        if (
            max(map(len, messages), default=0) <= self.most // 2
            and max(map(len, filter(None, map(Message.key, messages))), default=0) <= self.most // 2
            and not any(map(Message.headers, messages))
        ):
            return
        for message in messages:
            if (size := size_of(message)) > self.most:
                cut[message.partition(), message.offset()] = size
                message.set_key(None)
                message.set_value(None)
                message.set_headers([])

    def _require_bearable(self, error: KafkaError, item: StreamRange | None) -> None:
        """Raises `Unreachable`, but not at the log's end or for a broker that comes and goes."""
        if error.code() in FATAL or error.fatal():
            raise self._away(error.str(), item)

    def _away(self, what: str, item: StreamRange | None) -> Unreachable:
        which = str(item.offsets) if item else "the topic"
        return Unreachable(f"{which} could not be read from Kafka at {self.bootstrap}: {what}")


def _drop_passed(consumer: Consumer, waiting: dict[int, StreamRange]) -> None:
    """Drops ranges whose end the consumer has passed, even if the last records before it are invisible."""
    for partition, item in list(waiting.items()):
        if _position(consumer, item) >= item.offsets.until_offset:
            del waiting[partition]


def _position(consumer: Consumer, item: StreamRange) -> int:
    """Returns the offset behind the last consumed one, markers included. Negative before the first."""
    where = item.offsets.topic_partition
    return int(consumer.position([TopicPartition(where.topic, where.partition)])[0].offset)


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Collects garbage less often, because Python would search all new messages for cycles in vain."""
    usual = gc.get_threshold()
    gc.set_threshold(10 * AT_ONCE, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def _together(ranges: Sequence[StreamRange]) -> Iterator[list[StreamRange]]:
    """Groups small ranges, because each alone costs a round trip to the broker. Leaves a big one by itself."""
    some: list[StreamRange] = []
    for item in ranges:
        if some and sum(each.offsets.span for each in some) + item.offsets.span > FEW:
            yield some
            some = []
        some.append(item)
    if some:
        yield some


def _by_partition(messages: Sequence[Message]) -> Iterable[tuple[int, Sequence[Message]]]:
    """Groups messages by partition, in their order."""
    where = list(map(Message.partition, messages))
    if len(set(where)) == 1:
        return [(where[0], messages)]
    apart: dict[int, list[Message]] = {}
    for partition, message in zip(where, messages, strict=True):
        apart.setdefault(partition, []).append(message)
    return apart.items()


def _raw(held: Held, ranges: Sequence[StreamRange], cut: Cut) -> Iterator[pa.RecordBatch]:
    """Yields the held records of these ranges, one range after another, with coordinates as in Spark's source."""
    parts = [(item, held[item.offsets.topic_partition.partition]) for item in ranges]
    messages = list(chain.from_iterable(part for _, part in parts))
    if not messages:
        return
    rows, each = len(messages), [len(part) for _, part in parts]
    keys = pa.array(map(Message.key, messages), pa.binary(), size=rows)
    values = pa.array(map(Message.value, messages), pa.binary(), size=rows)
    lengths = [pc.fill_null(pc.binary_length(bytes_), 0) for bytes_ in (keys, values)]
    stamps = np.fromiter(map(itemgetter(1), map(Message.timestamp, messages)), np.int64, rows)
    headers = list(map(Message.headers, messages))
    sizes = pc.add(*lengths)
    if cut:
        known = sizes.to_pylist()
        places = ((message.partition(), message.offset()) for message in messages)
        sizes = pa.array([cut.get(place, size) for place, size in zip(places, known, strict=True)], pa.int32())
    arrays = {
        "_stream": np.repeat([item.stream_id for item, _ in parts], each),
        "_offset": np.fromiter(map(Message.offset, messages), np.int64, rows),
        "_ordinal": np.zeros(rows, np.int32),
        # Kafka writes -1 for none.
        "_timestamp": pa.array(np.minimum(stamps, LAST_STAMP) * 1000, RAW.field("_timestamp").type, mask=stamps < 0),
        "_key": keys,
        "_value": values,
        "_headers": list(map(text_of, headers)) if any(headers) else pa.nulls(rows, pa.string()),
        "_bytes": sizes,
        "_partition": np.repeat([item.offsets.topic_partition.partition for item, _ in parts], each),
    }
    yield pa.RecordBatch.from_pydict(arrays, schema=RAW)
