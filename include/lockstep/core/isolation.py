"""Finds the one record that kills its reader's process, by halving the ranges that the process died on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.core.offsets import OffsetRange, StreamRange
from lockstep.core.records import HEADERS_UNIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Ranges = tuple[StreamRange, ...]
    Dies = Callable[[Ranges, Ranges], bool]

READER_ENDED_TWICE = "the reader's process ended, twice, when it read this record alone"
READER_BUSY_TWICE = "the reader made no progress within record_limits.seconds, twice, when it read this record alone"
HEADERS_UNREADABLE = "a header's name is no UTF-8, which Kafka's protocol asks for"
FATAL_REASONS = [READER_ENDED_TWICE, READER_BUSY_TWICE]
REASONS = (*FATAL_REASONS, HEADERS_UNREADABLE)  # of `_bytes` below zero
MOST_FATAL = 10  # fatal records of one batch, at most


def halves(ranges: Sequence[StreamRange]) -> tuple[Ranges, Ranges]:
    """Splits ranges in the middle of their offsets. Their order stays."""
    left = sum(item.offsets.span for item in ranges) // 2
    first, second = [], []
    for item in ranges:
        here = min(left, item.offsets.span)
        left -= here
        at = item.offsets.from_offset + here
        if at > item.offsets.from_offset:
            first.append(_part(item, item.offsets.from_offset, at))
        if at < item.offsets.until_offset:
            second.append(_part(item, at, item.offsets.until_offset))
    return tuple(first), tuple(second)


def fatal_record(ranges: Sequence[StreamRange], hidden: Ranges, dies: Dies) -> StreamRange | None:
    """Finds one record that kills its reader, as a range of one offset. Returns None without a proof.

    `dies` reads ranges in a separate process, without the bytes of the records in `hidden`. The proof has three parts.
    A reader survives other records. Then it dies twice on this record alone. Then it survives this record without its
    bytes. So no record is blamed while the machine kills every reader.
    """
    left, lived, untried = tuple(ranges), False, []
    while sum(item.offsets.span for item in left) > 1:
        first, second = halves(left)
        if dies(first, hidden):
            left = first
            untried.append(second)
        else:
            left, lived = second, lived or _shows_more(first, hidden)
    others = [part for part in reversed(untried) if _shows_more(part, hidden)]
    if not lived and others and all(dies(part, hidden) for part in others):
        return None
    (one,) = left
    if one in hidden or not (dies(left, hidden) and dies(left, hidden)):
        return None
    return None if dies(left, (*hidden, one)) else one


def _shows_more(part: Ranges, hidden: Ranges) -> bool:
    """Returns True if a part has offsets that are not hidden."""
    offsets = {(item.stream_id, item.offsets.from_offset) for item in hidden}
    count = sum(
        item.stream_id == stream and item.offsets.from_offset <= offset < item.offsets.until_offset
        for item in part
        for stream, offset in offsets
    )
    return count < sum(item.offsets.span for item in part)


def names_of(records: Sequence[StreamRange]) -> str:
    """Names records as a refusal does: `orders-3 offset 17, orders-4 offset 2`."""
    return ", ".join(f"{item.offsets.topic_partition} offset {item.offsets.from_offset}" for item in sorted(records))


def hidden_size(size: int, reason: str) -> int:
    """Returns the `_bytes` of a record that is not decoded: below zero, with its size and the reason."""
    return ~(size % HEADERS_UNIT + HEADERS_UNIT * REASONS.index(reason))


def hidden_reason(size: int) -> str:
    """Returns the reason of a reject with such `_bytes`."""
    return REASONS[~size // HEADERS_UNIT]


def trial_seconds(ranges: Sequence[StreamRange], seconds: int) -> int:
    """Returns the deadline of a trial. Only the proof on one record alone takes the whole of it, so halving is quick."""
    return seconds if sum(item.offsets.span for item in ranges) == 1 else max(1, seconds // 10)


def _part(item: StreamRange, begin: int, end: int) -> StreamRange:
    return replace(item, offsets=OffsetRange(item.offsets.topic_partition, begin, end))
