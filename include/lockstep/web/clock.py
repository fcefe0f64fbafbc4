"""Times to places along a picture, and round times to write along its axis; all of it in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lockstep.web.drawing import NARROW, TICKS, WIDTH

STEPS = (
    *(timedelta(milliseconds=n) for n in (1, 10, 100)),
    *(timedelta(seconds=n) for n in (1, 5, 15)),
    *(timedelta(minutes=n) for n in (1, 5, 15)),
    *(timedelta(hours=n) for n in (1, 3, 6, 12)),
    *(timedelta(days=n) for n in (1, 2, 7, 14, 28, 91, 182, 364, 1820, 3640, 18200)),
)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)  # of Python's calendar
ZERO = datetime(1970, 1, 1, tzinfo=UTC)
HOURS = 240  # marks of hours, at most: more cannot be told apart


@dataclass(frozen=True, slots=True)
class Clock:
    """A half-open stretch of time along the picture."""

    since: datetime
    until: datetime

    def at(self, moment: datetime) -> float:
        """Where a moment is; what lies outside is at the edge."""
        share = (moment - self.since) / max(self.until - self.since, timedelta(microseconds=1))
        return round(WIDTH * min(max(share, 0.0), 1.0), 2)

    def box(self, since: datetime | None, until: datetime | None) -> tuple[float, float]:
        """Left edge and width, from edge to edge where an end is not known; nothing is too narrow to be seen."""
        left = self.at(since or self.since)
        return left, max(round(self.at(until or self.until) - left, 2), NARROW)

    def ticks(self) -> list[tuple[float, str]]:
        """Round times to write along the axis."""
        step = next((s for s in STEPS if (self.until - self.since) / s <= TICKS), (self.until - self.since) / TICKS)
        return [(self.at(moment), _written(moment, step)) for moment in self._round(step)]

    def hours(self) -> list[float]:
        """Where whole hours begin, unless there are too many of them."""
        hour = timedelta(hours=1)
        return [self.at(moment) for moment in self._round(hour)] if (self.until - self.since) / hour <= HOURS else []

    def zooms(self) -> dict[str, tuple[datetime, datetime]]:
        """Half as long, twice as long, and the half before and behind."""
        quarter = (self.until - self.since) / 4
        return {
            "in": (self.since + quarter, self.until - quarter),
            "out": (_earlier(self.since, 2 * quarter), _later(self.until, 2 * quarter)),
            "earlier": (_earlier(self.since, 2 * quarter), self.until - 2 * quarter),
            "later": (self.since + 2 * quarter, _later(self.until, 2 * quarter)),
        }

    def _round(self, step: timedelta) -> list[datetime]:
        first, last = -((ZERO - self.since) // step), (self.until - ZERO) // step
        return [ZERO + n * step for n in range(first, last + 1)]


def _earlier(moment: datetime, by: timedelta) -> datetime:
    return moment - min(by, moment - FIRST)


def _later(moment: datetime, by: timedelta) -> datetime:
    return moment + min(by, LAST - moment)


def _written(moment: datetime, step: timedelta) -> str:
    if step >= timedelta(days=1):
        return moment.strftime("%Y-%m-%d")
    if step >= timedelta(minutes=1):
        return moment.strftime("%m-%d %H:%M")
    return moment.strftime("%H:%M:%S.%f")[: 8 if step >= timedelta(seconds=1) else 12]
