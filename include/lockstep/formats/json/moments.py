"""Reads dates and timestamps that are written as text: whole ones, and none that would lose a digit."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from lockstep.formats.json.literal import Literal

WRITTEN_DATE = re.compile(r"([+-]?\d{4,7})-(\d{1,2})-(\d{1,2})\Z", re.ASCII)
WRITTEN_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?\s*([^\s\d:.].*?)?)?)?)?\s*\Z",
    re.ASCII,
)
OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2}))?(?::?(\d\d))?\Z", re.ASCII)
ZONES_OF_UTC = {"Z", "UTC", "GMT", "UT"}
MICRO_DIGITS = 6
MOST_SHIFT = timedelta(hours=18)
LAST_YEAR, LAST_MINUTE = 9999, 59


def read_date(value: Any) -> date:
    """Returns the date that a text says. Raises `TypeError` for another text, `ValueError` outside of years 1 to 9999."""
    return _day(_found(WRITTEN_DATE, value)).date()


def read_timestamp(value: Any) -> datetime:
    """Returns the moment that a text says, in UTC. A text without a zone is in UTC, and one without a time is midnight.

    Raises `TypeError` for another text, and `ValueError` for digits below the microsecond and outside of years 1 to 9999.
    """
    found = _found(WRITTEN_TIMESTAMP, value)
    hour, minute, second = (int(part or 0) for part in found.group(4, 5, 6))
    fraction = found[7] or ""
    if fraction[MICRO_DIGITS:].strip("0"):
        raise ValueError("has digits below the microsecond, which a timestamp would lose")
    zone = _zone(found[8])
    day = _day(found)
    try:
        moment = day.replace(
            hour=hour, minute=minute, second=second, microsecond=int(fraction[:MICRO_DIGITS].ljust(MICRO_DIGITS, "0"))
        )
    except ValueError:
        raise TypeError from None
    try:
        return moment.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:
        raise ValueError("outside the years 1 to 9999") from None


def _found(pattern: re.Pattern[str], value: Any) -> re.Match[str]:
    found = None if isinstance(value, Literal) or not isinstance(value, str) else pattern.match(value)
    if found is None:
        raise TypeError
    return found


def _day(found: re.Match[str]) -> datetime:
    year, month, day = (int(part) for part in found.group(1, 2, 3))
    if not 1 <= year <= LAST_YEAR:
        try:
            datetime(2000 + year % 400, month, day)  # noqa: DTZ001 - is there such a day at all
        except ValueError:
            raise TypeError from None
        raise ValueError("outside the years 1 to 9999")
    try:
        return datetime(year, month, day)  # noqa: DTZ001 - its zone comes later
    except ValueError:
        raise TypeError from None


def _zone(name: str | None) -> tzinfo:
    if name is None or name in ZONES_OF_UTC:
        return UTC
    if found := OFFSET.match(name):
        sign, *parts = found.groups()
        hours, minutes, seconds = (int(part or 0) for part in parts)
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if max(minutes, seconds) > LAST_MINUTE or offset > MOST_SHIFT:
            raise TypeError
        return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise TypeError from None
