"""Tests that a record is judged by the watermark of its own offset, in each of its windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lockstep.core.windows.event_time import Hopping
from lockstep.core.windows.judgements import JudgedRange, has_windows, place_record, watermark_at

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
JUDGED = [JudgedRange(0, 10, NOON), JudgedRange(10, 12, None), JudgedRange(20, 30, LATER)]


@pytest.mark.parametrize(
    ("offset", "watermark"),
    [(0, NOON), (9, NOON), (10, None), (11, None), (12, None), (20, LATER), (29, LATER), (30, None)],
)
def test_an_offset_is_judged_by_the_range_that_holds_it_and_by_no_other(offset, watermark):
    assert watermark_at(JUDGED, offset) == watermark


def test_nothing_is_judged_where_nothing_was_planned():
    assert watermark_at([], 3) is None


def test_a_record_is_late_in_the_windows_that_were_closed_and_counts_in_the_others():
    kind = Hopping("60 seconds", every="30 seconds")
    placed = place_record(kind, 7, NOON, NOON + timedelta(seconds=70), timedelta(seconds=40))
    assert [((each.window.start - NOON).total_seconds(), each.late) for each in placed] == [(-30, True), (0, False)]
    assert {(each.offset, each.watermark) for each in placed} == {(7, NOON + timedelta(seconds=70))}


@pytest.mark.parametrize(
    ("moment", "has"),
    [
        (datetime(1, 12, 31, 23, 59, 59, tzinfo=UTC), False),
        (datetime(2, 1, 1, tzinfo=UTC), True),
        (datetime(9989, 12, 31, 23, 59, 59, tzinfo=UTC), True),
        (datetime(9990, 1, 1, tzinfo=UTC), False),
    ],
)
def test_an_event_has_windows_in_the_years_2_to_9989(moment, has):
    assert has_windows(moment) is has
