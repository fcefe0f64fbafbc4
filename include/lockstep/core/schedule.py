"""Computes how long a schedule may let a pipeline wait: the longest time between two runs of a cron expression."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

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
