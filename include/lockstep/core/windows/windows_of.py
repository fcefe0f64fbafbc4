"""Computes the windows of a moment. Their times are half-open: a window holds its start and not its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, assert_never
from zoneinfo import ZoneInfo

from lockstep.core.windows.event_time import Calendar, Hopping, Tumbling, parse_duration

if TYPE_CHECKING:
    from lockstep.core.windows.event_time import WindowKind

WINDOW_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # windows of a fixed size begin at whole multiples of it from here
EARLIEST_EVENT = datetime(
    2, 1, 1, tzinfo=UTC
)  # an event before, or at the last, would have windows that no calendar holds
LATEST_EVENT = datetime(9990, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, order=True)
class EventWindow:
    """One window, [start, end), in UTC."""

    start: datetime
    end: datetime

    def __contains__(self, moment: datetime) -> bool:
        return self.start <= moment < self.end


def windows_of(kind: WindowKind, moment: datetime) -> tuple[EventWindow, ...]:
    """Returns the windows that a moment counts in, the oldest first."""
    match kind:
        case Tumbling():
            size = parse_duration(kind.size, "size")
            return (_sized(_floor(moment, size), size),)
        case Hopping():
            size, every = parse_duration(kind.size, "size"), parse_duration(kind.every, "every")
            newest = _floor(moment, every)
            return tuple(_sized(newest - hops * every, size) for hops in reversed(range(size // every)))
        case Calendar():
            begins = _first_day(kind.unit, moment.astimezone(ZoneInfo(kind.zone)).date())
            if moment >= _midnight(_next(kind.unit, begins), kind.zone):
                begins = _next(kind.unit, begins)  # the clock went back behind midnight, to the day before
            return (EventWindow(_midnight(begins, kind.zone), _midnight(_next(kind.unit, begins), kind.zone)),)
        case _:
            assert_never(kind)


def windows_a_record(kind: WindowKind) -> int:
    """Returns in how many windows each record counts."""
    return parse_duration(kind.size, "size") // parse_duration(kind.every, "every") if isinstance(kind, Hopping) else 1


def is_late(window: EventWindow, lateness: timedelta, watermark: datetime | None) -> bool:
    """Returns True if the window was closed at this watermark. None stands for a watermark that has seen nothing."""
    return watermark is not None and window.end + lateness <= watermark


def _sized(start: datetime, size: timedelta) -> EventWindow:
    return EventWindow(start, start + size)


def _floor(moment: datetime, step: timedelta) -> datetime:
    return WINDOW_EPOCH + (moment - WINDOW_EPOCH) // step * step


def _first_day(unit: str, day: date) -> date:
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if unit == "month" else day


def _next(unit: str, begins: date) -> date:
    if unit == "month":
        return date(begins.year + begins.month // 12, begins.month % 12 + 1, 1)
    return begins + timedelta(days=7 if unit == "week" else 1)


def _midnight(day: date, zone: str) -> datetime:
    """Returns the moment at which a day begins: the first of two midnights, or the moment that leaves midnight out."""
    return datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)
