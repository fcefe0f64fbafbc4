"""Tests how ranges are distributed to tasks that commit them whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.engine.spark.ranges import groups

SPANS = st.lists(st.integers(1, 10**9), min_size=1, max_size=40)


def ranges(spans: list[int]) -> list[StreamRange]:
    return [StreamRange(p, OffsetRange(TopicPartition("t", p), 5, 5 + span)) for p, span in enumerate(spans)]


@given(SPANS, st.integers(1, 8))
def test_every_range_is_in_one_group_whole_in_order_and_no_group_is_empty_or_one_too_many(spans, number):
    made = groups(ranges(spans), number)

    assert [item for group in made for item in group] == ranges(spans)
    assert all(made)
    assert len(made) <= number


@given(st.integers(1, 8), st.integers(1, 10))
def test_equal_ranges_are_dealt_out_evenly(number, each):
    assert [len(group) for group in groups(ranges([1_000] * number * each), number)] == [each] * number
