"""Places records in windows and judges them, as the watermarks of their batches' plans say."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from lockstep.core.windows.windows_of import EARLIEST_EVENT, LATEST_EVENT, is_late, windows_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from lockstep.core.windows.event_time import WindowKind
    from lockstep.core.windows.windows_of import EventWindow


@dataclass(frozen=True, slots=True)
class JudgedRange:
    """The watermark that judges a range of offsets. None judges nothing late."""

    from_offset: int
    until_offset: int
    watermark: datetime | None


@dataclass(frozen=True, slots=True)
class PlacedRecord:
    """A record in one of its windows, with the watermark that judges it."""

    offset: int
    window: EventWindow
    watermark: datetime | None
    late: bool


def has_windows(moment: datetime) -> bool:
    """Returns True if an event at this moment has windows. Other events are rejects."""
    return EARLIEST_EVENT <= moment < LATEST_EVENT


def watermark_at(judgements: Sequence[JudgedRange], offset: int) -> datetime | None:
    """Returns the watermark that judges an offset, or None if nothing does. The judgements are in the order of offsets."""
    place = bisect_right(judgements, offset, key=attrgetter("from_offset")) - 1
    return judgements[place].watermark if place >= 0 and offset < judgements[place].until_offset else None


def place_record(
    kind: WindowKind, offset: int, moment: datetime, watermark: datetime | None, lateness: timedelta
) -> list[PlacedRecord]:
    """Returns a record once for each of its windows, each late or not."""
    return [
        PlacedRecord(offset, window, watermark, is_late(window, lateness, watermark))
        for window in windows_of(kind, moment)
    ]
