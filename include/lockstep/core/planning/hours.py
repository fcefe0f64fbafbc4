"""Decides which hours are over, which offsets belong to each, and whether all of these are committed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lockstep.core.states import CoverageKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lockstep.core.offsets import TopicPartition

HOUR = timedelta(hours=1)
HOURS_PER_LOOK = 48  # hours that one look completes
FURTHEST = timedelta(days=7)  # before the first look: older hours are not announced one by one


@dataclass(frozen=True, slots=True, order=True)
class Reached:
    """The progress of the hours in one stream. `offset` is the first in no hour yet, None before the first hour.

    A stream that `ends` is retired: nothing follows its position. A stream that is `gone` can no longer be read. Before
    the start of a `renewed` stream, the log may hold records that an older incarnation has read.
    """

    stream_id: int
    topic_partition: TopicPartition
    start_offset: int
    position: int
    offset: int | None
    ends: bool = False
    gone: bool = False
    renewed: bool = False


@dataclass(frozen=True, slots=True, order=True)
class HourOffsets:
    """The half-open `[from_offset, until_offset)` of one stream that belong to an hour. It is empty if nothing came."""

    stream_id: int
    topic_partition: TopicPartition
    from_offset: int
    until_offset: int


@dataclass(frozen=True, slots=True, order=True)
class Covered:
    """A covered stretch of a stream: by a batch, by a loss accepted at some time, or by a skip."""

    stream_id: int
    from_offset: int
    until_offset: int
    kind: CoverageKind
    batch_id: int | None = None
    accepted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Complete:
    """The answer that every offset of the hour which ends at `until` is committed, except for the losses.

    The losses may have held records of the hour.
    """

    until: datetime
    offsets: tuple[HourOffsets, ...]
    batches: tuple[int, ...]
    losses: tuple[Covered, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The answer that the hour which ends at `until` is not complete, with the reason and the next command."""

    until: datetime
    reason: str
    next_command: str


def first_hour(begin: datetime, now: datetime) -> datetime:
    """Returns the start of a pipeline's first hour: the first whole hour from `begin` on, at most `FURTHEST` back."""
    return max(_ceil(begin), _ceil(now - FURTHEST))


def hours_before(since: datetime, begin: datetime) -> tuple[datetime, ...]:
    """Returns the ends of the whole hours between two times, the oldest first, at most a week of them."""
    first = _ceil(since)
    ends = (first + HOUR * n for n in range(1, FURTHEST // HOUR + 1))
    return tuple(end for end in ends if end <= begin)


def hours_over(after: datetime, now: datetime, grace: timedelta) -> tuple[datetime, ...]:
    """Returns the ends of the next hours after `after` that are over, at most `HOURS_PER_LOOK`.

    By now, all clocks that stamp records are past them (T13).
    """
    ends = (after + HOUR * n for n in range(1, HOURS_PER_LOOK + 1))
    return tuple(end for end in ends if end + grace <= now)


def offsets_of_hour(
    reached: Iterable[Reached], begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> tuple[HourOffsets, ...]:
    """Returns each stream's offsets that belong to an hour. `begin` and `end` are its boundaries by partition.

    An hour begins where the previous one ended, so hours tile whatever the boundaries are. The rest of a stream that is
    gone belongs to the hour that is announced next.
    """
    found = []
    for stream in reached:
        at = stream.topic_partition
        low, high = stream.start_offset, stream.position if stream.ends else None
        first = stream.offset if stream.offset is not None else _within(begin[at], low, high)
        last = stream.position if stream.gone else max(first, _within(end[at], low, high))
        if not stream.ends or first < stream.position:
            found.append(HourOffsets(stream.stream_id, stream.topic_partition, first, last))
    return tuple(sorted(found))


def judge_hour(
    pipeline: str,
    until: datetime,
    reached: Iterable[Reached],
    offsets: Sequence[HourOffsets],
    covered: Iterable[Covered],
    *,
    named: bool = False,
) -> Complete | Waiting:
    """Returns Complete, or Waiting with the first missing stretch and the command that brings it.

    Of several topics, commands are `named`: they name theirs. `covered` holds the coverage of the hour's offsets, with
    the stretch right below them. A loss that ends where an hour begins may have held records of it. That is not so if it
    was accepted before the hour began.
    """
    streams = {stream.stream_id: stream for stream in reached}
    by_stream: dict[int, list[Covered]] = {}
    for each in sorted(covered):
        by_stream.setdefault(each.stream_id, []).append(each)
    batches: set[int] = set()
    losses = []
    for part in offsets:
        stream, own = streams[part.stream_id], by_stream.get(part.stream_id, [])
        if (missing := _missing(pipeline, stream, part, own, named=named)) is not None:
            return Waiting(until, *missing)
        batches |= {c.batch_id for c in own if c.batch_id is not None and _overlap(c, part)}
        losses += [c for c in own if c.kind != CoverageKind.BATCH and _may_have_held(c, part, until - HOUR)]
    return Complete(until, tuple(offsets), tuple(sorted(batches)), tuple(losses))


def key_of(until: datetime) -> str:
    """Returns the hour as a partition key: its start in UTC, as Airflow's mappers of time read it."""
    return (until.astimezone(UTC) - HOUR).strftime("%Y-%m-%dT%H:%M:%S")


def _missing(
    pipeline: str, stream: Reached, part: HourOffsets, own: Sequence[Covered], *, named: bool
) -> tuple[str, str] | None:
    """Returns, in words, the first missing stretch of a stream and the command that brings it, or None."""
    where, at, end = part.topic_partition, part.from_offset, part.until_offset
    if stream.position < end:
        return f"{where} [{stream.position}, {end}) is not committed yet", f"lockstep run {pipeline}"
    skipped = False
    for each in own:
        if at >= end or each.from_offset > at:
            break
        if each.until_offset > at:
            if skipped := each.kind == CoverageKind.SKIPPED and not stream.gone:
                break
            at = each.until_offset
    if at >= end:
        return None
    behind = [c.until_offset if skipped else c.from_offset for c in own if c.until_offset > at]
    stretch = min([end, *behind[:1]])
    topic = f" --topic {where.topic}" if named else ""
    fill = f"lockstep fill {pipeline}{topic} --from {where.partition}:{at} --until {where.partition}:{stretch}"
    return f"{where} [{at}, {stretch}) {'was skipped' if skipped else 'is covered by nobody'}", fill


def _may_have_held(loss: Covered, part: HourOffsets, begin: datetime) -> bool:
    near = loss.from_offset < part.until_offset and loss.until_offset >= part.from_offset
    return near and (loss.accepted_at is None or loss.accepted_at > begin)


def _overlap(covered: Covered, part: HourOffsets) -> bool:
    return max(covered.from_offset, part.from_offset) < min(covered.until_offset, part.until_offset)


def _within(offset: int, low: int, high: int | None) -> int:
    return max(low, offset if high is None else min(offset, high))


def _ceil(moment: datetime) -> datetime:
    whole = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return whole if whole == moment else whole + HOUR
