"""Tests deaths per partition: committed ranges stay, no process reads them again, and the rest is done once."""

from __future__ import annotations

import pytest

from crash.per_partition import by_partition, committed_ranges, states

# fault point → how many of the three ranges are committed when the only process is killed there
RANGES = {
    "range.before_copy": 0,
    "range.copy_mid": 0,
    "range.published": 0,
    "range.before_commit": 0,
    "range.done_unacknowledged": 1,
    "stage.done": 3,
    "validate.after": 3,
    "commit.locked": 3,
    "commit.fence_ok": 3,
    "commit.closed": 3,
}


@pytest.fixture
def partitioned(drill):
    by_partition(drill)
    return drill


IN_CI = ("range.before_commit", "range.done_unacknowledged", "validate.after")  # the matrix strikes the others there
POINTS = [pytest.param(point, marks=() if point in IN_CI else pytest.mark.long) for point in RANGES]


@pytest.mark.parametrize("point", POINTS)
def test_killed_anywhere_committed_ranges_stay_as_they_are_and_the_others_follow_once(partitioned, point):
    assert partitioned.run(fault=f"{point}=kill") == {"killed": "SIGKILL"}
    before = committed_ranges(partitioned)
    assert len(before) == RANGES[point]
    assert states(partitioned) == ["planned"]
    assert partitioned.violations() == []

    assert partitioned.run("--until-idle")["decision"] == "Idle"

    after = committed_ranges(partitioned)
    assert {stream: after[stream] for stream in before} == before
    assert len({after[stream] for stream in after.keys() - before}) == (1 if len(before) < 3 else 0)
    assert states(partitioned) == ["committed"]
    assert partitioned.ask("select count(*), count(distinct id) from public.drill") == [(150, 150)]
    assert partitioned.violations(rest=True) == []
