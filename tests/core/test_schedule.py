"""Tests how long a schedule may let a pipeline wait."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lockstep.core.pipeline.schedule import longest_wait


@pytest.mark.parametrize(
    ("schedule", "expected", "reason"),
    [
        ("*/5 * * * *", timedelta(minutes=5), "every five minutes"),
        ("*/7 * * * *", timedelta(minutes=7), "56 to 00 is shorter than seven"),
        ("0,10 * * * *", timedelta(minutes=50), "the longest counts"),
        ("@hourly", timedelta(hours=1), "a preset"),
        ("0 9-17 * * 1-5", timedelta(days=2, hours=16), "from Friday's end to Monday"),
        ("0 9-17 * * mon-fri", timedelta(days=2, hours=16), "the same by name"),
        ("0 0 * * 7", timedelta(days=7), "7 is Sunday, too"),
        ("0 0 1 * *", timedelta(days=31), "the longest month"),
        ("0 0 1,15 * 1", timedelta(days=7), "either day of month or weekday: Mondays alone come weekly"),
        ("0 0 29 2 *", timedelta(days=4 * 365 + 1), "leap years"),
        ("15 4 1 jan *", timedelta(days=366), "a leap year lies between"),
        ("5/20 * * * *", timedelta(minutes=20), "from the fifth minute on"),
        ("0 0 31 2 *", None, "a day that never comes"),
        ("60 * * * *", None, "no such minute"),
        ("*/0 * * * *", None, "no step"),
        ("5-1 * * * *", None, "backwards"),
        ("x * * * *", None, "no number"),
        ("* * * *", None, "four fields"),
        ("* * * * * *", None, "seconds are not understood"),
        ("@continuous", None, "no cron expression"),
        ("", None, "nothing"),
    ],
)
def test_the_longest_wait_of_a_schedule(schedule, expected, reason):
    assert longest_wait(schedule) == expected, reason
