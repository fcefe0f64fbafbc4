"""Draws a feed: a bar per change set, and a line over all numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.web.pictures.drawing import LANE_WIDTH, NARROW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.ledger.views.reading import Document

BARS_HEIGHT, FOOT = 120, 5  # of the bars, and of the strip below that says which kind of commit it was
MARK_WIDTH = 420  # of the picture's 1000. On a phone, two times in words that are nearer would lie over one another
LEAST_BAR = 1.5  # of a bar's height: lower ones cannot be seen
KINDS_OF_CHANGES = ("inserted", "updated", "deleted")


def set_bars(sets: Sequence[Document], confirmed: int | None, slots: int) -> dict[str, Any] | None:
    """Returns a bar per set, stacked by kind of change, or None without sets. `sets` begin with the newest.

    A set without counts is one part. `confirmed_x` is where what is sent ends, if it ends between these sets.
    """
    if not sets:
        return None
    step, most = LANE_WIDTH / slots, max(each["changes"] for each in sets) or 1
    bars = [_bar(each, number * step, step, most) for number, each in enumerate(reversed(sets))]
    return {
        "bars": bars,
        "most": max(each["changes"] for each in sets),
        "width": LANE_WIDTH,
        "height": BARS_HEIGHT,
        "foot": FOOT,
        "ticks": [(bars[number]["x"], bars[number]["set"]["at"]) for number in _marked(bars)],
        "confirmed_x": None if confirmed is None else _confirmed_x(bars, confirmed, step),
    }


def _marked(bars: Sequence[dict[str, Any]]) -> list[int]:
    """Returns which bars have their time below them: the first, the middle and the last, if they stand apart."""
    marks = [0]
    for number in (len(bars) // 2, len(bars) - 1):
        if bars[number]["x"] - bars[marks[-1]]["x"] >= MARK_WIDTH:
            marks.append(number)
    return marks


def _bar(found: Document, x: float, step: float, most: int) -> dict[str, Any]:
    counted = found["inserted"] is not None
    kinds = {kind: found[kind] for kind in KINDS_OF_CHANGES} if counted else {"uncounted": found["changes"]}
    parts, foot = [], float(BARS_HEIGHT)
    for kind, count in kinds.items():
        if count:
            height = max(LEAST_BAR, BARS_HEIGHT * count / most)
            foot -= height
            parts.append({"kind": kind, "y": round(max(foot, 0.0), 2), "height": round(height, 2)})
    cause = found["kind"] if found["kind"] != "batch" else found["lane"]
    return {"set": found, "x": round(x, 2), "width": round(step * 0.8, 2), "parts": parts, "cause": cause}


def _confirmed_x(bars: Sequence[dict[str, Any]], confirmed: int, step: float) -> float | None:
    """Returns the place of a number between the bars. It is within a bar if a set is sent in part."""
    for bar in bars:
        first, changes = bar["set"]["first_number"], bar["set"]["changes"]
        if changes and confirmed < first + changes:
            if confirmed < first and bar is bars[0]:
                return None
            share = max(confirmed - first, 0) / changes
            left: float = max(bar["x"] - step * 0.1, 0)
            return round(left + float(share) * step, 2)
    return None


def numbers_line(feed: Document) -> list[dict[str, Any]]:
    """Returns the parts of a line over all numbers. They are trimmed, sent, waiting, or kept where nothing is sent."""
    end = feed["next_number"]
    sent = feed["confirmed"]
    edges = [("trimmed", 0, feed["kept_from"])]
    if sent is None:
        edges.append(("kept", feed["kept_from"], end))
    else:
        edges += [("sent", feed["kept_from"], sent), ("waits", max(sent, feed["kept_from"]), end)]
    return [
        {
            "kind": kind,
            "from": begin,
            "until": until,
            "x": round(LANE_WIDTH * begin / end, 2),
            "width": max(round(LANE_WIDTH * (until - begin) / end, 2), NARROW),
        }
        for kind, begin, until in edges
        if until > begin
    ]
