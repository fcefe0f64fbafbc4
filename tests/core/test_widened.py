"""A stretch that reaches over what was asked for is known with the number of offsets that were."""

from __future__ import annotations

import pytest

from lockstep.core.offsets import OffsetRange, TopicPartition
from lockstep.core.planning.widened import widened

SEGMENT = OffsetRange(TopicPartition("orders.v1", 0), 100, 200)


@pytest.mark.parametrize(
    ("begin", "end", "asked"),
    [(100, 200, None), (0, 500, None), (100, 150, 50), (150, 200, 50), (150, 160, 10), (100, 100, 0), (300, 400, 0)],
)
def test_a_stretch_is_wider_by_what_nobody_asked_for(begin, end, asked):
    found = widened(SEGMENT, begin, end)
    assert (found and found.asked) == asked
