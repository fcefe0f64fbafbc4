"""Holds the common parts of the readers: a consumer's progress, first timestamps, and unreadable batches."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from operator import methodcaller
from threading import Thread
from typing import TYPE_CHECKING, Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, Message, TopicPartition

from lockstep.core.errors import BadData, UnreadableHeaders
from lockstep.core.records import LAST_STAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from confluent_kafka import Consumer

    Headers = Sequence[tuple[str, Any]] | None

SINCE, MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)  # of Kafka's timestamps
INTERVAL_MS = 1_000
CLOSE_SECONDS = 5.0
HEADERS_OF = methodcaller("headers")
UNREADABLE: list[tuple[str, Any]] = []  # this very list, in place of headers that cannot be read
LEAST_OF_PARTITION, MOST_OF_PARTITION = 2**17, 2**22  # bytes
BYTES_EXPECTED = 512  # of a record
# A larger batch of records, after decompression, counts as unreadable. librdkafka's own limit is a tenth of it.
MOST_FETCHED_BYTES = 1_000_000_000
# librdkafka names a batch of records that it cannot read. It then goes on behind it, or at an offset that does not exist.
MALFORMED = {
    KafkaError._BAD_MSG,  # noqa: SLF001
    KafkaError._BAD_COMPRESSION,  # noqa: SLF001
    KafkaError._NOT_IMPLEMENTED,  # noqa: SLF001
}


def moment_of_stamp(stamp: int) -> datetime:
    """Returns a record's timestamp as a time. Past the calendar's end it is the last one."""
    return SINCE + min(stamp, LAST_STAMP) * MILLISECOND


def stamp_of_moment(moment: datetime) -> int:
    """Returns the first timestamp at or past a time. Kafka counts from 1970, and takes one below that for a question."""
    return max(0, -((SINCE - moment.astimezone(UTC)) // MILLISECOND))


class Fetched:
    """The next offsets that a consumer fetches, by librdkafka's statistics.

    Records alone do not show them: an aborted or compacted stretch of a log has none.
    """

    def __init__(self) -> None:
        self._next: dict[tuple[str, str], int] = {}
        self._has_moved = False

    @property
    def settings(self) -> dict[str, Any]:
        """Returns settings for the consumer to follow. Its statistics come while it polls."""
        return {"statistics.interval.ms": INTERVAL_MS, "stats_cb": self._take}

    def has_moved(self) -> bool:
        """Returns True if the consumer fetched past any offset since the last call."""
        moved, self._has_moved = self._has_moved, False
        return moved

    def _take(self, statistics: str) -> None:
        for topic, found in json.loads(statistics)["topics"].items():
            for partition, facts in found["partitions"].items():
                offset = facts["next_offset"]
                self._has_moved |= offset > self._next.get((topic, partition), offset)
                self._next[topic, partition] = offset


@contextmanager
def closing_soon(consumer: Consumer) -> Iterator[Consumer]:
    """Closes a consumer at the end of the block. Leaves one behind that does not close in `CLOSE_SECONDS`.

    At a batch that it cannot read, librdkafka sometimes waits for its own thread without end.
    """
    try:
        yield consumer
    finally:
        closer = Thread(target=consumer.close, name="closes a consumer", daemon=True)
        closer.start()
        closer.join(CLOSE_SECONDS)


def fetch_size(spans: Iterable[int]) -> dict[str, int]:
    """Returns the setting for how much of a partition an answer has: about what the longest range needs.

    More than that is decoded in vain.
    """
    size = BYTES_EXPECTED * max(spans, default=0)
    return {"max.partition.fetch.bytes": min(MOST_OF_PARTITION, max(LEAST_OF_PARTITION, size))}


def record_headers(message: Message) -> Headers:
    """Returns a record's headers. Raises `UnreadableHeaders`, with its place, if a name is no UTF-8."""
    (headers,) = _headers((message,), HEADERS_OF)
    return headers


def headers_of_all(messages: Sequence[Message]) -> list[Headers]:
    """Returns the headers of all records. Raises as `record_headers` does."""
    return _headers(messages, Message.headers)  # the client's own method: many are read


def _headers(messages: Sequence[Message], headers_of: Callable[[Message], Headers]) -> list[Headers]:
    found: list[Headers] = []
    # By `map`, which sees the client's error. A call in Python's own code may go on with a broken list.
    try:
        found.extend(map(headers_of, messages))
    except (SystemError, UnicodeDecodeError):
        # The client keeps the broken list, and a look at it would end this process.
        messages[len(found)].set_headers(UNREADABLE)
        found.append(UNREADABLE)
    for message, headers in zip(messages, found, strict=False):
        if headers is UNREADABLE:
            where = f"{message.topic()}-{message.partition()}: the record at offset {message.offset()}"
            raise UnreadableHeaders(
                f"{where} has a header whose name is no UTF-8, which Kafka's client of Python cannot read"
            )
    return found


def size_of(message: Message) -> int:
    """Returns the bytes of a record after decompression: value, key and headers."""
    headers = sum(
        len(name.encode(errors="replace")) + len(value or b"") for name, value in record_headers(message) or ()
    )
    return len(message) + len(message.key() or b"") + headers


def is_past(message: Message, until_offset: int) -> bool:
    """Returns True for a record at or behind an offset. The log's end and a batch with an error have an offset, too."""
    return message.offset() is not None and message.offset() >= until_offset


def refuse_malformed(message: Message, bootstrap: str, most: int = MOST_FETCHED_BYTES) -> None:
    """Raises `BadData`, with partition and offset, if a message reports a batch that cannot be read."""
    error = message.error()
    if error is not None and error.code() in MALFORMED:
        raise BadData(
            f"{message.topic()}-{message.partition()}: the batch of records at offset {message.offset()} cannot be read "
            f"from Kafka at {bootstrap}, or is larger than {most:,} bytes after decompression: {error.str()}",
            next_command=f"restore the partition from a replica, or lockstep skip NAME --to {message.partition()}:OFFSET "
            "--reason ...",
        )


def first_stamps(
    consumer: Consumer, at: Mapping[tuple[str, int], int], seconds: float
) -> dict[tuple[str, int], int | None]:
    """Returns, per topic and partition, the time of the first record at or after an offset, in milliseconds.

    The time is None if the log ends without such a record. Omits late answers.
    """
    found: dict[tuple[str, int], int | None] = {}
    waited_for = set(at)
    consumer.assign([TopicPartition(*where, offset) for where, offset in at.items()])
    until = time.monotonic() + seconds
    while waited_for and (message := consumer.poll(max(0.0, until - time.monotonic()))) is not None:
        where = (message.topic(), message.partition())
        if where in waited_for:
            waited_for.discard(where)
            consumer.pause([TopicPartition(*where)])
            kind, stamp = (TIMESTAMP_NOT_AVAILABLE, -1) if message.error() else message.timestamp()
            if kind != TIMESTAMP_NOT_AVAILABLE and stamp >= 0:
                found[where] = stamp
            elif message.error() and message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                found[where] = None
    return found
