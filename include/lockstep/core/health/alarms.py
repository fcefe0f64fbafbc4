"""Finds conditions that will stop a pipeline or make it wait, with the command that helps now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from lockstep.core.offsets import Bounds, TopicPartition

NEAR = 4  # retention is near when no more than this fraction of a record's time is left


@dataclass(frozen=True, slots=True)
class Alarm:
    """A warning about one partition: its offsets, the number of records and seconds, and the next command."""

    kind: str
    topic: str
    partition: int
    from_offset: int
    until_offset: int
    message: str
    next: str
    records: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The known state of one partition: its stream's position, its bounds, and the times of two records.

    `waiting_since` is the time of the oldest record that is not committed. `open_since` is the time of the first record
    past the stable end. That record belongs to an open transaction or waits behind one. A time is None if it was not
    found. `empty` says that no record lies between position and stable end: markers and aborted records do.
    """

    where: TopicPartition
    position: int
    bounds: Bounds
    high_end: int
    waiting_since: datetime | None = None
    open_since: datetime | None = None
    empty: bool = False


def headroom_seconds(reading: Reading, kept: timedelta | None, now: datetime) -> float | None:
    """Returns for how many seconds, at least, retention keeps the oldest record that waits.

    Returns None if no record waits, its time is unknown, or retention deletes nothing by time.
    """
    if kept is None or reading.waiting_since is None or reading.bounds.stable_end <= reading.position:
        return None
    return max(0.0, round((reading.waiting_since - now + kept).total_seconds(), 3))


def alarms(name: str, reading: Reading, kept: timedelta | None, now: datetime) -> list[Alarm]:
    """Returns the warnings about a partition that the pipeline already reads."""
    return [found for found in (_retention(name, reading, kept, now), _stalled(name, reading, now)) if found]


def grown(name: str, where: TopicPartition, bounds: Bounds) -> Alarm:
    """Returns the warning about a partition that was added after the last plan."""
    low, high = bounds.log_start, bounds.stable_end
    return Alarm(
        "partition_added",
        where.topic,
        where.partition,
        low,
        high,
        f"{where}: the partition was added; it is read from offset 0, and holds [{low}, {high}). "
        "Keys may have moved to it from other partitions",
        f"lockstep run {name}",
        records=high - low,
    )


def topic_alarm(name: str, where: TopicPartition, position: int, *, is_named: bool) -> Alarm:
    """Returns the warning about a stream whose topic is gone, or not named any more, of a pipeline of several."""
    what = f"topic {where.topic} is gone" if is_named else f"the definition does not name topic {where.topic} any more"
    return Alarm(
        "topic_gone",
        where.topic,
        where.partition,
        position,
        position,
        f"{where}: {what}; the position is {position}",
        f"lockstep retire {name} --topic {where.topic} --reason ...",
    )


def with_topic(alarm: Alarm, option: str) -> Alarm:
    """Returns the alarm with the option that names its topic in its next command."""
    return replace(alarm, next=alarm.next.replace(" --partition", f"{option} --partition")) if option else alarm


def _retention(name: str, reading: Reading, kept: timedelta | None, now: datetime) -> Alarm | None:
    where, position, bounds = reading.where, reading.position, reading.bounds
    if (gap := bounds.gap(position)) and gap[0] == position:
        return Alarm(
            "retention_passed",
            where.topic,
            where.partition,
            position,
            gap[1],
            f"{where}: offsets [{position}, {gap[1]}) were deleted before they were committed",
            f"lockstep accept-loss {name} --partition {where.partition} --from {position} --until {gap[1]} "
            "--reason ...",
            records=gap[1] - position,
        )
    seconds = headroom_seconds(reading, kept, now)
    if seconds is None or kept is None or seconds > kept.total_seconds() / NEAR:
        return None
    headroom = position - bounds.log_start
    return Alarm(
        "retention_near",
        where.topic,
        where.partition,
        position,
        bounds.stable_end,
        f"{where}: retention may delete offset {position} in {seconds:.0f} s, with {headroom} offsets before it, "
        f"and [{position}, {bounds.stable_end}) is not committed",
        f"lockstep run {name} --until-idle",
        records=headroom,
        seconds=seconds,
    )


def _stalled(name: str, reading: Reading, now: datetime) -> Alarm | None:
    where, low, high = reading.where, reading.bounds.stable_end, reading.high_end
    if high <= low:
        return None
    since = reading.open_since
    seconds = max(0.0, round((now - since).total_seconds(), 3)) if since else None
    long = f"for {seconds:.0f} s" if seconds is not None else "for nobody knows how long"
    return Alarm(
        "open_transaction",
        where.topic,
        where.partition,
        low,
        high,
        f"{where}: a transaction is open at offset {low}: {high - low} offsets [{low}, {high}) wait behind it, {long}",
        f"lockstep status {name}; if it stays: kafka-transactions.sh find-hanging --topic {where.topic} "
        f"--partition {where.partition}",
        records=high - low,
        seconds=seconds,
    )
