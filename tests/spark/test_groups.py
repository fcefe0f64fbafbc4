"""Tests how ranges are distributed to tasks: whole to those that commit them, in pieces if there are too few."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.engine.spark.ranges import even_parts, groups

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


@given(SPANS, st.integers(1, 60))
def test_shares_are_the_ranges_each_offset_once_and_no_share_has_two_pieces_of_one(spans, number):
    made = even_parts(ranges(spans), number)

    assert all(len({item.stream_id for item in share}) == len(share) > 0 for share in made)
    assert len(made) <= number
    glued: list[StreamRange] = []
    for item in (item for share in made for item in share):
        if glued and glued[-1].stream_id == item.stream_id:
            assert glued[-1].offsets.until_offset == item.offsets.from_offset
            item = replace(item, offsets=replace(item.offsets, from_offset=glued.pop().offsets.from_offset))  # noqa: PLW2901 - grown
        glued.append(item)
    assert glued == ranges(spans)
    if number > len(spans):
        sizes = [sum(item.offsets.span for item in share) for share in made]
        assert max(sizes) - min(sizes) <= 1
    else:
        assert made == groups(ranges(spans), number)
