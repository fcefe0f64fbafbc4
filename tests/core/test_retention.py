"""Tests the arithmetic of retention against a log that is deleted record by record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.offsets import TopicPartition
from lockstep.core.retention.limits import Retention, RetentionLimit, retention_of
from lockstep.core.retention.prospects import (
    STORED_BESIDE_A_RECORD,
    Expiry,
    Fate,
    Rate,
    Unread,
    Volume,
    deletion,
    prospect,
    rate_since,
    stored_size,
    worst,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
WHERE = TopicPartition("orders.v1", 3)
LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC)
WEEK_MS = 7 * 86_400_000


def unread(position: int = 40, start: int = 5, end: int = 100, hours: float | None = 1, **more: bool) -> Unread:
    since = None if hours is None else NOW - timedelta(hours=hours)
    return Unread(WHERE, position, start, end, since, **more)


@pytest.mark.parametrize(
    ("settings", "time", "size", "reason"),
    [
        ({"retention.ms": str(WEEK_MS), "retention.bytes": "-1"}, timedelta(days=7), None, "as Kafka has it"),
        ({"retention.ms": "-1", "retention.bytes": "1000"}, None, 1000, "by size alone"),
        ({"retention.ms": "0", "retention.bytes": "0"}, timedelta(), 0, "nothing is kept at all"),
        ({"retention.ms": str(2**63 - 1), "retention.bytes": str(2**63 - 1)}, None, 2**63 - 1, "for ever"),
        ({"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "1"}, None, None, "compaction alone"),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1"}, timedelta(milliseconds=1), None, "both"),
        ({"cleanup.policy": "", "retention.ms": "1"}, None, None, "no policy deletes nothing"),
    ],
)
def test_limits_are_what_the_policy_lets_them_be(settings, time, size, reason):
    assert retention_of(settings) == Retention(time, size), reason


@pytest.mark.parametrize(
    ("found", "fate"),
    [
        (unread(), Fate.WAITS),
        (unread(position=100), Fate.NOTHING_WAITS),
        (unread(empty=True), Fate.NOTHING_WAITS),
        (unread(hours=None), Fate.UNKNOWN),
        (unread(start=41), Fate.LOST),
        (unread(start=100, end=100), Fate.LOST),
        (unread(start=41, same_log=False), Fate.ANOTHER_LOG),
    ],
)
def test_the_first_offset_has_one_fate(found, fate):
    assert found.fate is fate
    told = prospect(found, Retention(HOUR, None), None, (Rate(0, None, NOW), Rate(0, None, NOW)), NOW)
    assert bool(told.earliest) == (fate is Fate.WAITS)


def deleted_second(limits: Retention, age: float, waits: float, rate: float) -> int | None:
    """Lets the log grow second by second. Returns the first second at which Kafka may delete the record."""
    for second in range(2_000):
        old = limits.time is not None and age + second >= limits.time.total_seconds()
        if old or (limits.size is not None and waits + rate * second >= limits.size):
            return second
    return None


@given(
    st.none() | st.integers(0, 1_500),
    st.none() | st.integers(0, 10_000),
    st.integers(0, 1_000),
    st.integers(0, 5_000),
    st.integers(0, 50),
)
def test_a_log_that_grows_loses_the_record_in_the_second_that_is_predicted(kept, size, age, waits, rate):
    limits = Retention(None if kept is None else timedelta(seconds=kept), size)

    told = deletion(limits, NOW - timedelta(seconds=age), waits, rate, NOW)

    seen = deleted_second(limits, age, waits, rate)
    if seen is None:
        assert told is None or told.at > NOW + timedelta(seconds=1_999)
    else:
        assert told is not None
        assert seen - 1 < (told.at - NOW).total_seconds() <= seen


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.none() | st.integers(0, 2**63 - 1),
    st.none() | st.integers(0, 2**63 - 1),
    st.none() | st.floats(0, 1e30),
    st.none() | st.floats(0, 1e30),
)
def test_no_setting_and_no_date_is_too_large(since, kept, size, waits, rate):
    limits = retention_of({"retention.ms": str(-1 if kept is None else kept), "retention.bytes": str(size or -1)})
    told = deletion(limits, since, waits, rate, NOW)
    assert told is None or told.at >= NOW


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.integers(0, 10**12), st.floats(0, 1e12))
def test_the_worst_hour_deletes_no_later_than_today(today, other, size, waits):
    rates = [Rate(1, rate, NOW) for rate in (today, other)]
    at_today, at_worst = (
        deletion(Retention(None, size), NOW, waits, rate.size, NOW) for rate in (rates[0], worst(rates))
    )
    assert at_today is None or (at_worst is not None and at_worst <= at_today)


def test_what_is_unknown_deletes_nothing_by_its_limit():
    both = Retention(HOUR, 10)
    assert deletion(both, None, None, None, NOW) is None
    assert deletion(both, NOW, None, None, NOW) == Expiry(NOW + HOUR, RetentionLimit.TIME)
    assert deletion(both, None, 10, None, NOW) == Expiry(NOW, RetentionLimit.BYTES)
    assert deletion(both, None, 9, 0, NOW) is None
    assert deletion(both, LAST_DAY, None, None, NOW) is None


def test_a_record_is_as_large_as_those_that_were_read_and_what_kafka_stores_beside_it():
    pasts = [Volume(10, 1_000, NOW, 9, 900), Volume(30, 1_000, NOW, 30, 1_000)]
    assert stored_size(pasts) == 50 + STORED_BESIDE_A_RECORD
    assert stored_size([]) is None
    assert pasts[0].worst_rate() == Rate(9 / 3600, (900 + 9 * STORED_BESIDE_A_RECORD) / 3600, NOW)


def test_a_rate_is_over_a_minute_at_least():
    assert rate_since(7_200, NOW - HOUR, NOW, 10) == Rate(2, 20, NOW - HOUR)
    assert rate_since(120, NOW, NOW, None) == Rate(2, None, NOW)
    assert rate_since(120, LAST_DAY, NOW, None).records == 2, "a record that is dated ahead"
