"""Tests which small files go together, and which snapshots expire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lockstep.core.errors import Refusal
from lockstep.core.lake.keeping import SmallFile, cutoff_of, expired_snapshots, kept_of, merge_order


def file(stream: tuple[int, int], offset: tuple[int, int]) -> SmallFile:
    return SmallFile(stream, offset, f"{stream}{offset}", 1, 1)


def test_settled_files_come_first_and_none_is_merged_with_one_that_a_replay_may_take():
    settled = [file((1, 1), (n, n)) for n in range(5)]
    replayable = [file((1, 1), (n, n)) for n in range(5, 12)]
    shared = file((1, 2), (0, 3))  # stream 2 can be read again
    assert merge_order([*reversed(replayable), shared, *reversed(settled)], {1: 5}) == [
        settled,
        sorted([shared, *replayable]),
    ]
    assert merge_order(settled[:4], {1: 5}) == []  # too few
    assert merge_order([*settled, shared], {1: 5, 2: 4}) == [sorted([*settled, shared])]


def test_a_snapshot_expires_by_when_readers_were_led_away_from_it():
    made = {1: 10, 2: 20, 3: 30, 4: 40, 9: 15}  # 9 was never shown
    shown = [(10, 1), (20, 2), (30, 3), (40, 4)]
    assert expired_snapshots(made, shown, {4}, 35) == [1, 9, 2]  # readers saw 3 at 35
    assert expired_snapshots(made, shown, {4}, 10**9) == [1, 9, 2, 3]
    assert expired_snapshots(made, shown, {4, 1, 9}, 35) == [2]  # tags and branches
    assert expired_snapshots(made, [*shown, (50, 1)], {1}, 35) == [9, 2]
    assert expired_snapshots(made, [*shown, (50, 1), (60, 4)], {4}, 45) == [9, 2, 3]  # 1 was shown again until 60
    assert expired_snapshots({1: 10}, [(10, 1)], set(), 10**9) == []  # readers see it now
    assert expired_snapshots({}, [], set(), 35) == []


def test_how_long_snapshots_are_kept_is_a_duration():
    assert kept_of("") == timedelta(days=7)
    assert kept_of("36h") == timedelta(hours=36)
    for wrong in ("seven days", "0s", "-1d"):
        with pytest.raises(Refusal, match=r"LOCKSTEP_LAKE_KEEP is .* must be a duration") as refused:
            kept_of(wrong)
        assert refused.value.next_command == "set LOCKSTEP_LAKE_KEEP to a duration, such as 7d"


def test_snapshots_expire_by_the_clock_that_is_behind_and_may_be_kept_for_ever():
    now = datetime(2026, 5, 8, 12, tzinfo=UTC)
    week, ahead = timedelta(days=7), now + timedelta(days=30)
    assert cutoff_of(week, ahead, now) == cutoff_of(week, now, ahead) == cutoff_of(week, now) == now - week
    assert cutoff_of(kept_of("800000d"), now) == datetime.min.replace(tzinfo=UTC)
