"""Draws event time: windows as bars, partitions as lanes up to their time, and the watermark as a line across."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.states import WindowState
from lockstep.web.pictures.clock import Clock, shift_earlier, shift_later
from lockstep.web.pictures.drawing import LANE, LANE_GAP, LANE_WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lockstep.ledger.views.reading import Document

TRACK, TRACK_GAP = 14, 3  # of windows. Those that overlap lie below one another.
MARGIN = 0.02  # of the picture, on each side of what it shows
BEYOND = 0.25  # of the windows' stretch: what partitions have come to further away is at the picture's edge
SHOWN_STATES = frozenset({WindowState.EMITTED, WindowState.CLOSED})


def completeness(window: Document, watermark: datetime | None) -> float:
    """Returns the share of a window that the watermark has passed."""
    if window["state"] != WindowState.OPEN:
        return 1.0
    if watermark is None:
        return 0.0
    return float(min(max((watermark - window["start"]) / (window["end"] - window["start"]), 0.0), 1.0))


def corrections(window: Document) -> int:
    """Returns how often rows of a shown window were changed after they appeared, over all of its keys."""
    return max(window["revisions"] - window["keys"], 0) if window["state"] in SHOWN_STATES else 0


def event_lanes(
    windows: Sequence[Document], streams: Sequence[Document], watermark: datetime | None, now: datetime | None = None
) -> dict[str, Any] | None:
    """Returns the picture of these windows and streams, or None if nothing has a time yet.

    Counts windows that begin after `now` as `ahead`. Draws none of them beside others, which would become narrow.
    """
    begun = [each for each in windows if now is None or each["start"] <= now]
    ahead = len(windows) - len(begun) if begun else 0
    windows = begun or windows
    clock = _clock(windows, streams, watermark)
    if clock is None:
        return None
    bars, tracks = _bars(windows, clock, watermark)
    top = tracks * (TRACK + TRACK_GAP) + (LANE_GAP if windows else 0)
    return {
        "width": LANE_WIDTH,
        "height": top + len(streams) * (LANE + LANE_GAP),
        "top": top,
        "ahead": ahead,
        "track": TRACK,
        "lane": LANE,
        "bars": bars,
        "lanes": [_lane(each, top + number * (LANE + LANE_GAP), clock) for number, each in enumerate(streams)],
        "ticks": clock.ticks(),
        "watermark_x": clock.at(watermark) if watermark and clock.since <= watermark <= clock.until else None,
    }


def _clock(windows: Sequence[Document], streams: Sequence[Document], watermark: datetime | None) -> Clock | None:
    """Returns the stretch of the windows, and a little beyond of what partitions have come to."""
    come = [moment for each in streams for moment in (each["time"], each["seen"]) if moment]
    come += [watermark] if watermark else []
    shown = [moment for each in windows for moment in (each["start"], each["end"])] or come
    if not shown:
        return None
    since, until = min(shown), max(shown)
    beyond, margin = (until - since) * BEYOND, (until - since) * MARGIN
    since = max(min(since, *come), shift_earlier(since, beyond)) if come else since
    until = min(max(until, *come), shift_later(until, beyond)) if come else until
    return Clock(shift_earlier(since, margin), shift_later(until, margin))


def _bars(windows: Sequence[Document], clock: Clock, watermark: datetime | None) -> tuple[list[dict[str, Any]], int]:
    """Returns a bar per window, and the number of tracks that keep them apart."""
    ends: list[datetime] = []
    bars = []
    for window in sorted(windows, key=lambda each: each["start"]):
        free = (number for number, end in enumerate(ends) if end <= window["start"])
        track = next(free, len(ends))
        ends[track : track + 1] = [window["end"]]
        x, width = clock.box(window["start"], window["end"])
        share = completeness(window, watermark)
        bars.append(
            {
                "window": window,
                "x": x,
                "width": width,
                "y": track * (TRACK + TRACK_GAP),
                "complete": round(width * share, 2),
                "share": share,
                "corrections": corrections(window),
            }
        )
    return bars, len(ends)


def _lane(stream: Document, y: int, clock: Clock) -> dict[str, Any]:
    """Returns a stream's lane. It ends at the stream's time, and shows what is seen beyond, or an idle stretch."""
    time, seen = stream["time"], stream["seen"]
    return {
        "stream": stream,
        "y": y,
        "until": clock.at(time) if time else None,
        "seen": clock.box(time, seen) if time and seen and seen > time else None,
        "idle": clock.box(seen, time) if time and seen and time > seen else None,
    }
