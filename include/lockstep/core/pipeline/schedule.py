"""Computes how long a record may wait, by schedule or alarm, and parses where the first plan begins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, timedelta
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from lockstep.core.errors import BadDefinition, quoted
from lockstep.core.planning.bounds import MOST_OFFSET, AtOffsets, moment_of

if TYPE_CHECKING:
    from datetime import datetime

PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: tuple[tuple[range, dict[str, int]], ...] = (
    (range(60), {}),
    (range(24), {}),
    (range(1, 32), {}),
    (range(1, 13), {name: number for number, name in enumerate(MONTHS, 1)}),
    (range(8), {name: number for number, name in enumerate(DAYS)}),
)
_FIRST = date(2024, 1, 1).toordinal()
_YEARS = 9  # 29 February comes every four years, and eight pass before each weekday pattern has shown its worst
_DAY = 24 * 60
SCHEDULES = 2  # a record that waits for longer than this many runs is late
DURATION = re.compile(r"^(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?\Z", re.ASCII)


def duration_of(text: str, field: str) -> timedelta:
    """Returns the duration of a text such as `90s`, `15m`, `1h30m` or `2d`.

    Raises `BadDefinition`, which names the field, for any other value, and for no time at all.
    """
    found = DURATION.match(text) if isinstance(text, str) else None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0, 0)
    duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds) if found else None
    if not duration:
        shown = quoted(text) if isinstance(text, str) else quoted(repr(text))
        raise BadDefinition(f"{field} is {shown}: it must be a duration above zero, as 90s, 15m, 1h30m or 2d")
    return duration


@cache
def behind_after(schedule: str | None, alarm: str | None) -> timedelta | None:
    """Returns the age at which a record that waits makes its pipeline late: the alarm, else two schedules.

    Returns None without an alarm if there is no schedule, or if it is no cron expression.
    """
    if alarm is not None:
        return duration_of(alarm, "alarm")
    wait = longest_wait(schedule) if isinstance(schedule, str) else None
    return SCHEDULES * wait if wait else None


def longest_wait(schedule: str) -> timedelta | None:
    """Returns the longest time between two runs, in UTC.

    Returns None if the text is no cron expression that is understood, or has fewer than two runs.
    """
    fields = PRESETS.get(schedule.strip(), schedule).split()
    if len(fields) != len(_FIELDS):
        return None
    try:
        minutes, hours, days, months, weekdays = (
            _values(field, allowed, names) for field, (allowed, names) in zip(fields, _FIELDS, strict=True)
        )
    except ValueError:
        return None
    times = sorted(hour * 60 + minute for hour in hours for minute in minutes)
    either = not fields[2].startswith(("*", "?")) and not fields[4].startswith(("*", "?"))
    matching = [
        ordinal
        for ordinal in range(_FIRST, _FIRST + 366 * _YEARS)
        if _matches(date.fromordinal(ordinal), days, months, {day % 7 for day in weekdays}, either=either)
    ]
    if len(matching) < 2:  # noqa: PLR2004 - a wait lies between two
        return None
    within = [later - earlier for earlier, later in pairwise(times)]
    overnight = max(later - earlier for earlier, later in pairwise(matching)) * _DAY + times[0] - times[-1]
    return timedelta(minutes=max([overnight, *within]))


def _matches(day: date, days: set[int], months: set[int], weekdays: set[int], *, either: bool) -> bool:
    """Applies cron's own rule: if day of month and weekday are both named, either will do."""
    if day.month not in months:
        return False
    by_date, by_weekday = day.day in days, day.isoweekday() % 7 in weekdays
    return by_date or by_weekday if either else by_date and by_weekday


def _values(field: str, allowed: range, names: dict[str, int]) -> set[int]:
    found: set[int] = set()
    for part in field.lower().split(","):
        span, slash, step = part.partition("/")
        begin, dash, end = span.partition("-")
        if span in {"*", "?"}:
            low, high = allowed[0], allowed[-1]
        else:
            low = _number(begin, names)
            high = _number(end, names) if dash else allowed[-1] if slash else low
        if low not in allowed or high not in allowed or low > high or (slash and int(step) < 1):
            raise ValueError(field)
        found.update(range(low, high + 1, int(step) if slash else 1))
    return found


def _number(text: str, names: dict[str, int]) -> int:
    return names[text] if text in names else int(text)


def start_of(start: str | Mapping[int, int]) -> datetime | str | AtOffsets:
    """Returns `earliest`, `latest`, the moment of an ISO 8601 start in UTC, or an offset for each partition.

    Raises `BadDefinition` for any other value.
    """
    if isinstance(start, Mapping):
        if not start or not all(_is_offset(each) for pair in start.items() for each in pair):
            raise BadDefinition(f"start is {start!r}: it must hold an offset for each partition, as {{0: 123}}")
        return AtOffsets(dict(start))
    if isinstance(start, str) and start in {"earliest", "latest"}:
        return start
    try:
        return moment_of(start)
    except (TypeError, ValueError):
        raise BadDefinition(
            f"start is {start!r}: it must be earliest, latest, an ISO 8601 time, or offsets, as {{0: 123, 1: 456}}"
        ) from None


def _is_offset(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_OFFSET
