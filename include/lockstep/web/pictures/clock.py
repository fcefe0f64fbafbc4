"""Converts times to places along a picture, and chooses round times of the reader's zone for its axis."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lockstep.web.pictures.drawing import LANE_WIDTH, NARROW, TICKS
from lockstep.web.zone import local

MARK_STEPS = (
    *(timedelta(milliseconds=n) for n in (1, 10, 100)),
    *(timedelta(seconds=n) for n in (1, 5, 15)),
    *(timedelta(minutes=n) for n in (1, 5, 15)),
    *(timedelta(hours=n) for n in (1, 3, 6, 12)),
    *(timedelta(days=n) for n in (1, 2, 7, 14, 28, 91, 182, 364, 1820, 3640, 18200)),
)
CALENDAR_BEGIN, CALENDAR_END = (
    datetime.min.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
)  # of Python's calendar
ZERO = datetime(1970, 1, 1, tzinfo=UTC)
MOST_HOUR_MARKS = 240  # marks of hours, at most: more could not be distinguished


@dataclass(frozen=True, slots=True)
class Clock:
    """A half-open stretch of time along the picture."""

    since: datetime
    until: datetime

    def at(self, moment: datetime) -> float:
        """Returns the place of a moment. A moment outside is at the edge."""
        share = (moment - self.since) / max(self.until - self.since, timedelta(microseconds=1))
        return round(LANE_WIDTH * min(max(share, 0.0), 1.0), 2)

    def box(self, since: datetime | None, until: datetime | None) -> tuple[float, float]:
        """Returns left edge and width. An unknown end is at the picture's edge. Nothing is too narrow to be seen."""
        left = self.at(since or self.since)
        return left, max(round(self.at(until or self.until) - left, 2), NARROW)

    def ticks(self) -> list[tuple[float, str]]:
        """Returns round times for the axis, with their places."""
        step = next(
            (s for s in MARK_STEPS if (self.until - self.since) / s <= TICKS), (self.until - self.since) / TICKS
        )
        shift = local(self.since).utcoffset() or timedelta(0)
        return [(self.at(moment), _written(local(moment), step)) for moment in self._round(step, shift)]

    def hours(self) -> list[float]:
        """Returns the places of whole hours in UTC, as Lockstep tells them, or none if there are too many."""
        hour = timedelta(hours=1)
        return (
            [self.at(moment) for moment in self._round(hour)]
            if (self.until - self.since) / hour <= MOST_HOUR_MARKS
            else []
        )

    def zooms(self) -> dict[str, tuple[datetime, datetime]]:
        """Returns half and twice the stretch, and the stretches half a length earlier and later."""
        quarter = (self.until - self.since) / 4
        return {
            "in": (self.since + quarter, self.until - quarter),
            "out": (shift_earlier(self.since, 2 * quarter), shift_later(self.until, 2 * quarter)),
            "earlier": (shift_earlier(self.since, 2 * quarter), self.until - 2 * quarter),
            "later": (self.since + 2 * quarter, shift_later(self.until, 2 * quarter)),
        }

    def _round(self, step: timedelta, shift: timedelta = timedelta(0)) -> list[datetime]:
        """Returns the multiples of a step. They are round in a zone which is so far ahead of UTC."""
        zero = ZERO - shift
        first, last = -((zero - self.since) // step), (self.until - zero) // step
        return [zero + n * step for n in range(first, last + 1)]


def shift_earlier(moment: datetime, by: timedelta) -> datetime:
    """Returns the moment so much before, or the calendar's beginning."""
    return moment - min(by, moment - CALENDAR_BEGIN)


def shift_later(moment: datetime, by: timedelta) -> datetime:
    """Returns the moment so much after, or the calendar's end."""
    return moment + min(by, CALENDAR_END - moment)


def _written(moment: datetime, step: timedelta) -> str:
    if step >= timedelta(days=1):
        return moment.strftime("%Y-%m-%d")
    if step >= timedelta(minutes=1):
        return moment.strftime("%m-%d %H:%M")
    return moment.strftime("%H:%M:%S.%f")[: 8 if step >= timedelta(seconds=1) else 12]
