"""Reads exactly the raw records of a batch's ranges with Spark's source, with their coordinates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from lockstep.core.login.mechanisms import TOKEN_URL
from lockstep.core.records import HEADERS_UNIT
from lockstep.engine.kafka_ranges import FETCH_WAIT_MS
from lockstep.engine.raw_schema import RAW_SCHEMA
from lockstep.engine.spark.rows import in_spark
from lockstep.engine.spark.session import allow_tokens_from, session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.limits import RecordLimits
    from lockstep.core.staging import StageWork
    from lockstep.engine.raw_schema import Read

# Kafka writes -1 for none, and what lies past Python's calendar is its last day.
MOMENT = """case when timestamp >= timestamp '1970-01-01T00:00:00Z'
    then least(timestamp, timestamp '9999-12-31T00:00:00Z') end"""
BASE64 = "replace(base64(h.value), '\\r\\n', '')"  # Spark breaks it into lines
# The size of a record. A record that is not too large is counted without the bytes of its headers.
RECORD_LENGTH = "coalesce(length(key), 0L) + coalesce(length(value), 0L)"
_PLACE = "concat(topic, '-', partition)"
_Part = TypeVar("_Part")
HEADER = "octet_length(h.key) + coalesce(length(h.value), 0)"
SIZE = f"{RECORD_LENGTH} + coalesce(aggregate(headers, 0, (size, h) -> size + {HEADER}), 0)"


def records_of(
    work: StageWork, kafka: str, kafka_options: Mapping[str, str], limits: RecordLimits, *, names_topic: bool = False
) -> DataFrame:
    """Returns the ranges' records as `RAW_SCHEMA`: assigned partitions, numeric offsets, committed records only.

    A record past the limits comes without its bytes. `_bytes` is its true size, and tells too many headers. A hidden
    record also comes without its bytes. Its `_bytes` are below zero, as of `hidden_size`. `_topic` is null unless
    it is wanted, or the ranges are of several topics.
    """
    parts = parts_by_topic(
        (i.offsets.topic_partition.topic, i.offsets.topic_partition.partition, i) for i in work.ranges
    )
    several = len(parts) > 1
    allow_tokens_from(kafka_options.get(TOKEN_URL))
    options = {f"kafka.{name}": value for name, value in kafka_options.items()} | {
        "kafka.bootstrap.servers": kafka,
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.wait.ms": str(FETCH_WAIT_MS),
        "assign": json.dumps({topic: sorted(items) for topic, items in parts.items()}),
        "startingOffsets": offsets_json(parts, lambda item: item.offsets.from_offset),
        "endingOffsets": offsets_json(parts, lambda item: item.offsets.until_offset),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
    place = _PLACE if several else "partition"
    many = f"case when array_size(headers) > {limits.headers} then array_size(headers) * {HEADERS_UNIT} else 0 end"
    size, fits = f"{SIZE} + {many}", f"size between 0 and {limits.bytes}"
    if work.hidden:
        busy = f"case when {_is_one(place, work.busy, named=several)} then {HEADERS_UNIT} else 0 end"
        size = f"case when {_is_one(place, work.hidden, named=several)} then ~({SIZE} + {busy}) else {size} end"
    streams = ", ".join(f"{_place(item, named=several)}, {item.stream_id}" for item in work.ranges)
    # As SQL: each call of a function from Python is several round trips to the JVM.
    return (
        session()
        .read.format("kafka")
        .options(**options)
        .load()
        .selectExpr("*", f"{size} as size")  # once for each record: it goes through the headers
        .selectExpr(
            f"element_at(map({streams}), {place}) as _stream",
            "offset as _offset",
            "0 as _ordinal",
            f"{MOMENT} as _timestamp",
            f"case when {fits} then key end as _key",
            f"case when {fits} then value end as _value",
            f"case when {fits} then to_json(transform(headers, h -> struct(h.key as key, {BASE64} as value))) end"
            " as _headers",
            f"case when {fits} then {RECORD_LENGTH} else size end as _bytes",
            f"{'topic' if several or names_topic else 'cast(null as string)'} as _topic",
            "partition as _partition",
        )
    )


def parts_by_topic(parts: Iterable[tuple[str, int, _Part]]) -> dict[str, dict[int, _Part]]:
    """Groups parts by topic and partition."""
    found: dict[str, dict[int, _Part]] = {}
    for topic, partition, part in parts:
        found.setdefault(topic, {})[partition] = part
    return found


def offsets_json(parts: Mapping[str, Mapping[int, _Part]], offset_of: Callable[[_Part], int]) -> str:
    """Returns offsets by topic and partition, as Spark's source takes them."""
    return json.dumps({topic: {str(p): offset_of(each) for p, each in its.items()} for topic, its in parts.items()})


def _place(item: StreamRange, *, named: bool) -> str:
    return f"'{item.offsets.topic_partition}'" if named else str(item.offsets.topic_partition.partition)


def _is_one(place: str, items: Sequence[StreamRange], *, named: bool) -> str:
    """Returns the condition that a record is one of these."""
    known = [f"({_place(item, named=named)}, {item.offsets.from_offset}L)" for item in items]
    return f"({place}, offset) in ({', '.join(known)})" if known else "false"


def records_given(work: StageWork, read: Read) -> DataFrame:
    """Returns the ranges' records as `RAW_SCHEMA`, read by one task in Python instead of Spark's source."""
    ranges = work.ranges

    def raw(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in numbers:
            yield from read(ranges)

    return session().range(0, 1, 1, 1).mapInArrow(raw, in_spark(RAW_SCHEMA))
