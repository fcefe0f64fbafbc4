from __future__ import annotations

import pytest

from lockstep.core.offsets import Bounds, OffsetRange, TopicPartition

HERE = TopicPartition("orders.v1", 3)


@pytest.mark.parametrize(("low", "high"), [(5, 5), (5, 4), (-1, 4)])
def test_a_range_is_never_empty_and_never_below_zero(low, high):
    with pytest.raises(ValueError, match="not a range"):
        OffsetRange(HERE, low, high)


def test_a_range_prints_as_people_write_it():
    assert str(OffsetRange(HERE, 2, 2**53 + 1)) == "orders.v1-3 [2, 9007199254740993)"
    assert OffsetRange(HERE, 2, 2**53 + 1).span == 2**53 - 1


def test_bounds_are_a_logs():
    with pytest.raises(ValueError, match="not a log's"):
        Bounds(5, 4)


def test_a_partition_has_a_topic_and_a_number():
    with pytest.raises(ValueError, match="negative"):
        TopicPartition("t", -1)
    with pytest.raises(ValueError, match="topic"):
        TopicPartition("", 0)
