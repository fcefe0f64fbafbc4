"""Tests that a time and Kafka's milliseconds since 1970 are one another, in every year of the calendar."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from lockstep.adapters.kafka.reading import moment_of_stamp, stamp_of_moment
from lockstep.core.records import LAST_STAMP

STAMPS = st.integers(0, LAST_STAMP)


@given(STAMPS)
@example(2_147_472_000_001)  # in 2038, where a float of seconds is too coarse
@example(LAST_STAMP)
def test_a_stamp_is_the_first_one_of_its_own_time(stamp):
    assert stamp_of_moment(moment_of_stamp(stamp)) == stamp


@given(STAMPS.filter(lambda stamp: stamp < LAST_STAMP), st.integers(1, 999))
def test_a_time_within_a_millisecond_begins_at_the_next_stamp(stamp, microseconds):
    assert stamp_of_moment(moment_of_stamp(stamp) + timedelta(microseconds=microseconds)) == stamp + 1


def test_a_time_before_1970_is_the_first_stamp():
    assert stamp_of_moment(moment_of_stamp(0) - timedelta(days=1)) == 0
