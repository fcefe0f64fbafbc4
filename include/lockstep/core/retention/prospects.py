"""Predicts when Kafka deletes the first record of a partition that is not committed.

Kafka deletes the oldest segment as a whole. By time, it goes once its newest record is too old. By size, it goes once the
segments behind it are as large as `retention.bytes`. A record may stay longer than predicted, and by time never shorter.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from lockstep.core.retention.limits import NEVER, RetentionLimit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.core.offsets import TopicPartition
    from lockstep.core.retention.limits import Retention

# A batch of Kafka's has 61 bytes of its own, and a record less than 10 beside key and value, each in a batch alone at worst.
STORED_BESIDE_A_RECORD = 70
SHORTEST_SECONDS = 60.0  # a rate is over so many seconds at least: a burst of records is no pace
HOUR_SECONDS = 3600.0


class Fate(StrEnum):
    """The state of a partition's first offset that is not committed."""

    NOTHING_WAITS = "nothing waits"
    WAITS = "waits"
    UNKNOWN = "unknown"
    LOST = "lost"
    ANOTHER_LOG = "another log"


@dataclass(frozen=True, slots=True)
class Rate:
    """The records and stored bytes a second of a partition from a moment on. Bytes are None if no record's size is known."""

    records: float
    size: float | None
    begins: datetime


@dataclass(frozen=True, slots=True)
class Volume:
    """The ledger's count of a partition's records of the last days, and in the 60 minutes with the most bytes."""

    records: float
    size: float
    worst_hour: datetime
    worst_records: float
    worst_size: float

    def worst_rate(self) -> Rate:
        """Returns the rate of the worst hour, with the bytes that Kafka stores beside the records."""
        stored = self.worst_size + STORED_BESIDE_A_RECORD * self.worst_records
        return Rate(self.worst_records / HOUR_SECONDS, stored / HOUR_SECONDS, self.worst_hour)


@dataclass(frozen=True, slots=True)
class Unread:
    """The offsets of a partition that are not committed, from the position on. `since` is the time of the first record.

    `empty` says that no record lies there. Markers of transactions may. `same_log` is False if the position is one of
    another log. A loss has its own offsets. It is `archived` if files hold records between the position and it.
    """

    where: TopicPartition
    position: int
    log_start: int
    high_end: int
    since: datetime | None = None
    empty: bool = False
    same_log: bool = True
    archived: bool = False

    @property
    def offsets(self) -> int:
        """Returns the number of offsets that wait."""
        return max(0, self.high_end - max(self.position, self.log_start))

    @property
    def fate(self) -> Fate:
        """Returns what is known of the first offset."""
        if not self.same_log:
            return Fate.ANOTHER_LOG
        if self.log_start > self.position:
            return Fate.LOST
        if self.empty or not self.offsets:
            return Fate.NOTHING_WAITS
        return Fate.UNKNOWN if self.since is None else Fate.WAITS


@dataclass(frozen=True, slots=True, order=True)
class Expiry:
    """The moment from which on Kafka may delete a record, and by which limit."""

    at: datetime
    by: RetentionLimit


@dataclass(frozen=True, slots=True)
class Prospect:
    """The first deletions of what waits in a partition, at the pace of today and of the worst hour.

    `size` are the bytes that wait. It is None if no record's size is known, and for another log.
    """

    unread: Unread
    size: float | None
    today: Rate
    worst_hour: Rate
    at_todays_rate: Expiry | None
    at_worst_hour: Expiry | None

    @property
    def earliest(self) -> Expiry | None:
        """Returns the earlier of both deletions."""
        return min((each for each in (self.at_todays_rate, self.at_worst_hour) if each), default=None)


def stored_size(pasts: Iterable[Volume]) -> float | None:
    """Returns the bytes of a record in the log at most, or None if no record is known.

    Adds the bytes that Kafka stores beside a record. A producer that compresses stores fewer.
    """
    known = list(pasts)
    records = sum(past.records for past in known)
    return sum(past.size for past in known) / records + STORED_BESIDE_A_RECORD if records else None


def rate_since(offsets: int, begins: datetime, now: datetime, size: float | None) -> Rate:
    """Returns the rate at which so many offsets were appended since a moment."""
    records = offsets / max(SHORTEST_SECONDS, (now - begins).total_seconds())
    return Rate(records, None if size is None else records * size, begins)


def worst(rates: Iterable[Rate]) -> Rate:
    """Returns the rate with the most bytes, or with the most records if bytes are unknown."""
    return max(rates, key=lambda rate: (rate.size or 0.0, rate.records))


def prospect(
    unread: Unread, limits: Retention, size: float | None, rates: tuple[Rate, Rate], now: datetime
) -> Prospect:
    """Returns the deletions of what waits. `size` is that of a record, and `rates` are today's and the worst hour's."""
    waits = unread.offsets * size if size is not None and unread.same_log else None
    first: list[Expiry | None] = [None, None]
    if unread.fate in {Fate.WAITS, Fate.UNKNOWN}:
        first = [deletion(limits, unread.since, waits, rate.size, now) for rate in rates]
    return Prospect(unread, waits, *rates, *first)


def deletion(
    limits: Retention, since: datetime | None, unread: float | None, size: float | None, now: datetime
) -> Expiry | None:
    """Returns when the record of time `since` may be deleted first, or None if nothing known deletes it.

    `unread` are the bytes from it to the log's end, and `size` are those that come each second. The moment is now if
    it has passed.
    """
    by_time = None if limits.time is None or since is None else _after(now, since - now + limits.time)
    by_size = None if limits.size is None else _after(now, _until_full(limits.size, unread, size))
    found = [Expiry(at, by) for at, by in ((by_time, RetentionLimit.TIME), (by_size, RetentionLimit.BYTES)) if at]
    return min(found, default=None)


def _until_full(limit: int, unread: float | None, size: float | None) -> timedelta:
    if unread is None:
        return NEVER
    left = max(0.0, limit - unread)
    if left and not size:
        return NEVER
    return min(NEVER, timedelta(seconds=min(left / (size or 1.0), NEVER.total_seconds())))


def _after(now: datetime, left: timedelta) -> datetime | None:
    return now + max(left, timedelta()) if left < NEVER else None
