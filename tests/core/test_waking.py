"""Tests what wakes a run: records that no earlier wake-up was for, and no pile of runs."""

from __future__ import annotations

import pytest

from lockstep.core.fleet.waking import WAKE_AGAIN_SECONDS, WakingFacts, is_to_wake
from lockstep.core.offsets import TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def facts(ends, positions=()):
    return WakingFacts(
        dict(zip((FIRST, SECOND), ends, strict=False)), dict(zip((FIRST, SECOND), positions, strict=False))
    )


def test_what_waits_is_counted_by_partition():
    assert facts((7, 4), (5, 9)).waiting == 2, "a position past the end owes the other partition nothing"
    assert facts((7, 4), (5,)).waiting == 6, "no position is shown of the second one"
    assert facts((0, 0)).waiting == 0


@pytest.mark.parametrize(
    ("now", "woken", "seconds", "is_woken"),
    [
        pytest.param(facts((7,), (7,)), None, 1e9, False, id="nothing waits at the first look"),
        pytest.param(facts((7,), (5,)), None, 0, True, id="something waits at the first look"),
        pytest.param(facts((7,)), None, 0, True, id="nothing was ever committed"),
        pytest.param(facts((7,), (5,)), facts((7,), (5,)), 1e9, False, id="the same: the schedule tries again"),
        pytest.param(facts((9,), (7,)), facts((7,), (5,)), 0, True, id="the run has committed, and more has come"),
        pytest.param(facts((9,), (7,)), facts((9,), (5,)), 0, True, id="the run has left a rest"),
        pytest.param(facts((9,), (5,)), facts((7,), (5,)), WAKE_AGAIN_SECONDS - 1, False, id="the run still works"),
        pytest.param(facts((9,), (5,)), facts((7,), (5,)), WAKE_AGAIN_SECONDS, True, id="new records, and no progress"),
        pytest.param(facts((9,), (9,)), facts((7,), (5,)), 1e9, False, id="the run has taken all"),
    ],
)
def test_a_run_is_woken_for_what_the_last_wake_up_was_not_for(now, woken, seconds, is_woken):
    assert is_to_wake(now, woken, seconds) is is_woken
