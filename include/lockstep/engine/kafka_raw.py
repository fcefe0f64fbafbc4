"""Turns Kafka's messages into raw records as Arrow, with their coordinates."""

from __future__ import annotations

from itertools import chain, repeat
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, Message

from lockstep.adapters.kafka.reading import headers_of_all, is_past, record_headers, size_of
from lockstep.core.errors import UnreadableHeaders
from lockstep.core.isolation import HEADERS_UNREADABLE, hidden_size
from lockstep.core.records import HEADERS_UNIT, LAST_STAMP
from lockstep.engine.raw_schema import RAW_SCHEMA
from lockstep.formats.rows import headers_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.limits import RecordLimits

    Place = tuple[str, int]  # topic and partition
    Held = dict[Place, list[Message]]
    RecordPlace = tuple[str, int, int]  # topic, partition and offset
    Cut = dict[RecordPlace, int]
    Hidden = Mapping[RecordPlace, str]  # with the reason
    GoOn = Callable[[], None]
    Part = tuple[Held, Sequence[StreamRange], Cut]


def cut_large(messages: Sequence[Message], limits: RecordLimits | None, cut: Cut) -> None:
    """Removes the bytes of records past the limits, at once: the next may have as many. Adds their sizes to `cut`.

    A record whose headers cannot be read comes without them. It is in `cut`, too.
    """
    if limits is None or not _may_exceed(messages, limits):
        return
    for message in messages:
        try:
            size, headers = size_of(message), len(record_headers(message) or ())
        except UnreadableHeaders:
            message.set_headers([])
            size, headers = size_of(message), 0
            cut[record_place(message)] = hidden_size(size, HEADERS_UNREADABLE)
        if headers > limits.headers:
            size += headers * HEADERS_UNIT
        if size > limits.bytes:
            cut.setdefault(record_place(message), size)
            without_bytes(message)


def _may_exceed(messages: Sequence[Message], limits: RecordLimits) -> bool:
    """Returns False for records without headers that are all small. Their lengths alone cost next to nothing."""
    try:
        return (
            max(map(len, messages), default=0) > limits.bytes // 2
            or max(map(len, filter(None, map(Message.key, messages))), default=0) > limits.bytes // 2
            or any(headers_of_all(messages))
        )
    except UnreadableHeaders:
        return True


def hide_records(messages: Sequence[Message], hidden: Hidden, cut: Cut) -> None:
    """Removes the bytes of records that end their reader or keep it busy. Adds their sizes to `cut`."""
    for message in messages if hidden else ():
        if (reason := hidden.get(place := record_place(message))) is not None:
            cut[place] = hidden_size(cut.get(place, size_of(message)), reason)
            without_bytes(message)


def record_place(message: Message) -> RecordPlace:
    """Returns the topic, partition and offset of a record."""
    return message.topic(), message.partition(), message.offset()


def without_bytes(message: Message) -> None:
    """Removes key, value and headers."""
    message.set_key(None)
    message.set_value(None)
    message.set_headers([])


def log_place(item: StreamRange) -> Place:
    """Returns the topic and partition of a range."""
    return item.offsets.topic_partition.topic, item.offsets.topic_partition.partition


def errors_of(messages: Sequence[Message]) -> dict[int, KafkaError]:
    """Returns the errors among the messages, by their places."""
    if not any(map(Message.error, messages)):
        return {}
    return {place: error for place, error in enumerate(map(Message.error, messages)) if error is not None}


def is_read(before: Sequence[Message], until: int) -> bool:
    """Returns True if the last message before an error is the range's last one, or something behind it."""
    return any(is_past(each, until if each.error() else until - 1) for each in before[-1:])


def by_partition(messages: Sequence[Message], topic: str | None) -> Iterable[tuple[Place, Sequence[Message]]]:
    """Groups messages by topic and partition, in their order. `topic` is that of all of them, or None."""
    partitions = list(map(Message.partition, messages))
    topics = repeat(topic) if topic is not None else map(Message.topic, messages)
    if topic is not None and len(set(partitions)) == 1:
        return [((topic, partitions[0]), messages)]
    apart: dict[Place, list[Message]] = {}
    for where, message in zip(zip(topics, partitions, strict=False), messages, strict=True):
        apart.setdefault(where, []).append(message)
    return apart.items()


def raw_records(held: Held, ranges: Sequence[StreamRange], cut: Cut) -> Iterator[pa.RecordBatch]:
    """Yields the held records of these ranges, one range after another, with their coordinates."""
    parts = [(item, held[log_place(item)]) for item in ranges]
    messages = list(chain.from_iterable(part for _, part in parts))
    if not messages:
        return
    rows, each = len(messages), [len(part) for _, part in parts]
    keys = pa.array(map(Message.key, messages), pa.binary(), size=rows)
    values = pa.array(map(Message.value, messages), pa.binary(), size=rows)
    lengths = [pc.fill_null(pc.binary_length(bytes_), 0) for bytes_ in (keys, values)]
    stamps = np.fromiter(map(itemgetter(1), map(Message.timestamp, messages)), np.int64, rows)
    headers = headers_of_all(messages)
    sizes = pc.add(*lengths)
    if cut:
        known = sizes.to_pylist()
        sizes = pa.array(
            [cut.get(at, size) for at, size in zip(map(record_place, messages), known, strict=True)], pa.int64()
        )
    arrays = {
        "_stream": np.repeat([item.stream_id for item, _ in parts], each),
        "_offset": np.fromiter(map(Message.offset, messages), np.int64, rows),
        "_ordinal": np.zeros(rows, np.int32),
        # Kafka writes -1 for none.
        "_timestamp": pa.array(
            np.minimum(stamps, LAST_STAMP) * 1000, RAW_SCHEMA.field("_timestamp").type, mask=stamps < 0
        ),
        "_key": keys,
        "_value": values,
        "_headers": list(map(headers_json, headers)) if any(headers) else pa.nulls(rows, pa.string()),
        "_bytes": sizes,
        "_topic": pa.array([log_place(item)[0] for item, _ in parts]).take(np.repeat(np.arange(len(parts)), each)),
        "_partition": np.repeat([item.offsets.topic_partition.partition for item, _ in parts], each),
    }
    yield pa.RecordBatch.from_pydict(arrays, schema=RAW_SCHEMA)
