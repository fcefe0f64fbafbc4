"""Reads dates and times as Debezium and Connect write them. A digit that would be lost is an error, never a rounding."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MILLIS, MICROS, NANOS = 1_000, 1_000_000, 1_000_000_000  # parts of a second
UNIT_PARTS = {"millis": MILLIS, "micros": MICROS, "nanos": NANOS}
EPOCH_DAY = date(1970, 1, 1)
EPOCH_MOMENT = datetime(1970, 1, 1, tzinfo=UTC)
OUTSIDE = "is infinite, or outside the years 1 to 9999"
LOST_DIGITS = "has digits beyond the microsecond, which a timestamp would lose"
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,6})(\d*))?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)Z?\Z", re.ASCII)


def day_of_number(value: Any) -> date:
    """Returns the date that is so many days after 1970-01-01. A date of Avro is one already."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return EPOCH_DAY + timedelta(days=_whole(value))
    except OverflowError:
        raise ValueError(OUTSIDE) from None


def moment_of_number(parts: int) -> Callable[[Any], datetime]:
    """Returns a function from so many parts of a second since 1970 to the moment in UTC.

    A timestamp of Avro is one already.
    """

    def moment(value: Any) -> datetime:
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        micros, beyond = divmod(_whole(value) * MICROS, parts)
        if beyond:
            raise ValueError(LOST_DIGITS)
        try:
            return EPOCH_MOMENT + timedelta(microseconds=micros)
        except OverflowError:
            raise ValueError(OUTSIDE) from None

    return moment


def time_of_number(parts: int) -> Callable[[Any], str]:
    """Returns a function from so many parts of a second to the time of day as text, such as `23:59:59.5`."""

    def time_of_day(value: Any) -> str:
        if isinstance(value, time):
            value = (
                (((value.hour * 60 + value.minute) * 60 + value.second) * MICROS + value.microsecond) * parts // MICROS
            )
        whole = _whole(value)
        seconds, part = divmod(abs(whole), parts)
        digits = f"{part:0{len(str(parts)) - 1}d}".rstrip("0")
        sign, fraction = "-" if whole < 0 else "", f".{digits}" if digits else ""
        return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"

    return time_of_day


def moment_of_text(value: Any) -> datetime:
    """Returns the moment of an ISO 8601 text with a zone."""
    found = _MOMENT.match(_text(value))
    if found is None:
        raise ValueError("is no ISO 8601 time with a zone, in the years 1 to 9999")
    day, clock, digits, beyond, zone = found.groups()
    if beyond and beyond.strip("0"):
        raise ValueError(LOST_DIGITS)
    try:
        return datetime.fromisoformat(f"{day}T{clock}.{(digits or '').ljust(6, '0')}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is no ISO 8601 time with a zone, in the years 1 to 9999") from None


def day_of_text(value: Any) -> date:
    """Returns the date of an ISO 8601 text."""
    found = _DATE.match(_text(value))
    try:
        return date.fromisoformat(found[1]) if found else _no_date()
    except ValueError:
        return _no_date()


def _no_date() -> date:
    raise ValueError("is no ISO 8601 date in the years 1 to 9999")


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
