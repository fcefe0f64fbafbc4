"""Tests how ranges are distributed to tasks: whole to those that commit them, in pieces if there are too few."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.engine.spark.ranges import EVEN_ENOUGH, even_parts, groups

if TYPE_CHECKING:
    from collections.abc import Iterable

SPANS = st.lists(st.integers(1, 10**9), min_size=1, max_size=40)


def ranges(spans: list[int]) -> list[StreamRange]:
    return [StreamRange(p, OffsetRange(TopicPartition("t", p), 5, 5 + span)) for p, span in enumerate(spans)]


@given(SPANS, st.integers(1, 8))
def test_every_range_is_in_one_group_whole_in_order_and_no_group_is_empty_or_one_too_many(spans, number):
    made = groups(ranges(spans), number)

    assert sorted((item for group in made for item in group), key=_stream) == ranges(spans)
    assert all(list(group) == sorted(group, key=_stream) for group in made)
    assert all(made)
    assert len(made) <= number


@given(SPANS, st.integers(1, 8))
def test_groups_differ_by_one_range_at_most(spans, number):
    made = groups(ranges(spans), number)

    least = min(map(_offsets, made)) if len(made) == number else 0
    assert all(_offsets(group) - min(item.offsets.span for item in group) <= least for group in made)


@given(st.integers(1, 8), st.integers(1, 10))
def test_equal_ranges_are_dealt_out_evenly(number, each):
    assert [len(group) for group in groups(ranges([1_000] * number * each), number)] == [each] * number


def test_the_last_of_equal_streams_are_not_all_in_one_group():
    made = groups(ranges([1_000] * 8), 2)

    assert [[item.stream_id for item in group] for group in made] == [[0, 3, 4, 7], [1, 2, 5, 6]]


@given(SPANS, st.integers(1, 60))
def test_shares_are_the_ranges_each_offset_once_and_no_share_has_two_pieces_of_one(spans, number):
    made = even_parts(ranges(spans), number, may_cut=True)

    assert all(len({item.stream_id for item in share}) == len(share) > 0 for share in made)
    assert len(made) <= number
    glued: list[StreamRange] = []
    for item in sorted((item for share in made for item in share), key=lambda item: (_stream(item), _begin(item))):
        if glued and glued[-1].stream_id == item.stream_id:
            assert glued[-1].offsets.until_offset == item.offsets.from_offset
            item = replace(item, offsets=replace(item.offsets, from_offset=glued.pop().offsets.from_offset))  # noqa: PLW2901 - grown
        glued.append(item)
    assert glued == ranges(spans)
    dealt = groups(ranges(spans), number)
    if number > len(spans):
        sizes = [_offsets(share) for share in made]
        assert max(sizes) - min(sizes) <= 1
    elif max(map(_offsets, dealt)) * number <= EVEN_ENOUGH * sum(spans):
        assert made == dealt


def test_no_task_has_nothing_where_ranges_may_be_cut():
    assert [_offsets(share) for share in even_parts(ranges([1_100] * 10), 11, may_cut=True)] == [1_000] * 11


@given(SPANS, st.integers(1, 60))
def test_no_share_is_clearly_larger_than_the_others(spans, number):
    made = even_parts(ranges(spans), number, may_cut=True)

    assert max(map(_offsets, made)) < EVEN_ENOUGH * sum(spans) / number + 1


def test_a_range_with_most_of_the_records_is_cut_even_where_there_are_enough_ranges():
    made = even_parts(ranges([800, 100, 100]), 2, may_cut=True)

    assert [[(item.stream_id, _begin(item), item.offsets.until_offset) for item in share] for share in made] == [
        [(0, 5, 505)],
        [(0, 505, 805), (1, 5, 105), (2, 5, 105)],
    ]


def test_no_ranges_are_no_parts():
    assert even_parts([], 2, may_cut=True) == []


@given(SPANS, st.integers(1, 60))
def test_ranges_that_commit_as_a_whole_are_cut_nowhere(spans, number):
    assert even_parts(ranges(spans), number, may_cut=False) == groups(ranges(spans), number)


def _stream(item: StreamRange) -> int:
    return item.stream_id


def _begin(item: StreamRange) -> int:
    return item.offsets.from_offset


def _offsets(share: Iterable[StreamRange]) -> int:
    return sum(item.offsets.span for item in share)
