"""Defines event time: the column that holds it, how long the watermark stays behind it, and the kinds of windows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lockstep.core.errors import BadDefinition, quoted
from lockstep.core.pipeline.columns import IDENTIFIER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lockstep.core.pipeline.columns import Column

OF_WINDOWS = ("window_start", "window_end", "_watermark")  # beside a record's columns, for each of its windows
MOST_WINDOWS_A_RECORD = 100
LONGEST_DURATION = timedelta(days=3_660)
CALENDAR_UNITS = ("day", "week", "month")
FIXED_IN_POSTGRES = frozenset({"CET", "EET", "MET", "WET"})  # an offset there. Elsewhere a zone with summer time.
_DURATION = re.compile(r"^(\d{1,6}) (second|minute|hour|day|week)s?\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class EventTime:
    """The column that says when a record's event happened, and when its time counts as over.

    The watermark stays `delay` behind the newest event of each partition. With `idle`, a partition without new records
    holds it no longer than that.
    """

    column: str
    delay: str = "0 seconds"
    idle: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not IDENTIFIER.match(self.column):
            raise BadDefinition(f"event_time: column is {self.column!r}: it must be the name of a timestamp column")
        parse_duration(self.delay, "event_time: delay")
        if self.idle is not None:
            parse_duration(self.idle, "event_time: idle", above_zero=True)


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of one size, side by side: each record counts in one. They begin at whole sizes since 2000-01-01 UTC."""

    size: str

    def __post_init__(self) -> None:
        parse_duration(self.size, "target.window: size", above_zero=True)


@dataclass(frozen=True, slots=True)
class Hopping:
    """Windows of one size, of which another one begins `every` so often: each record counts in several."""

    size: str
    every: str

    def __post_init__(self) -> None:
        size = parse_duration(self.size, "target.window: size", above_zero=True)
        every = parse_duration(self.every, "target.window: every", above_zero=True)
        if size % every:
            raise BadDefinition(f"target.window: size {self.size!r} is no multiple of every {self.every!r}")
        if size // every > MOST_WINDOWS_A_RECORD:
            raise BadDefinition(
                f"target.window: a record would count in {size // every} windows, and {MOST_WINDOWS_A_RECORD} is the most: "
                "raise every, or lower size"
            )


@dataclass(frozen=True, slots=True)
class Calendar:
    """Days, weeks from Monday, or months of a time zone. A day of 23 or 25 hours is one window."""

    unit: str
    zone: str

    def __post_init__(self) -> None:
        if self.unit not in CALENDAR_UNITS:
            hint = ": an hour is Tumbling('1 hour')" if self.unit == "hour" else ""
            raise BadDefinition(f"target.window: unit is {self.unit!r}: it must be 'day', 'week' or 'month'{hint}")
        try:
            ZoneInfo(self.zone)
        except (KeyError, OSError, ValueError, TypeError, AttributeError):
            shown = quoted(self.zone) if isinstance(self.zone, str) else repr(self.zone)
            raise BadDefinition(
                f"target.window: zone {shown} is no time zone, such as 'Europe/Berlin' or 'UTC'"
            ) from None
        if self.zone in FIXED_IN_POSTGRES:
            raise BadDefinition(
                f"target.window: zone {self.zone!r} has no summer time in Postgres: name a place, such as 'Europe/Berlin'"
            )


WindowKind = Tumbling | Hopping | Calendar


def parse_duration(text: str, field: str, *, above_zero: bool = False) -> timedelta:
    """Returns the duration of a text such as `90 seconds`, `2 minutes` or `1 day`.

    Raises `BadDefinition`, which names the field, for any other value.
    """
    found = _DURATION.match(text) if isinstance(text, str) else None
    length = timedelta(**{f"{found[2]}s": int(found[1])}) if found else None
    if length is None or (above_zero and not length) or length > LONGEST_DURATION:
        shown = quoted(text) if isinstance(text, str) else quoted(repr(text))
        least = " above zero" if above_zero else ""
        raise BadDefinition(
            f"{field} is {shown}: it must be a duration{least}, as '90 seconds', '2 minutes', '1 hour' or '7 days'"
        )
    return length


def event_time_fault(event_time: EventTime | None, columns: Iterable[Column]) -> str | None:
    """Says, with the field's name, why these columns have no such event time. None if they have."""
    if event_time is None:
        return None
    types: Mapping[str, str] = {column.name: column.type for column in columns}
    found = types.get(event_time.column)
    for name in OF_WINDOWS:
        if name in types:
            return f"column {name}: Lockstep fills it in a target with windows; give the record's another name"
    if found is None:
        return f"event_time: column {event_time.column!r} is no column ({', '.join(types)})"
    return (
        None if found == "timestamp" else f"event_time: column {event_time.column!r} is {found}, and must be timestamp"
    )
