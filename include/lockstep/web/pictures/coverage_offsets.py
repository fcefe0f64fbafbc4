"""Draws the coverage along offsets: each segment at its place in its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.core.planning.bounds import MOST_OFFSET
from lockstep.ledger.views import picture, times
from lockstep.web.pages.asked import count_kinds
from lockstep.web.pictures import drawing
from lockstep.web.render import number

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.offsets import Bounds
    from lockstep.web.pages.asked import CoverageChoices, Streams


MOST_OFFSET_DIGITS = 19  # digits of the largest offset. Python refuses to read some thousands.


def along_offsets(cur: cursor, streams: Streams, asked: CoverageChoices) -> dict[str, Any]:
    """Returns the picture's values, with each segment at its offsets."""
    rows, bounds = streams.rows, streams.bounds
    ids = [row.stream_id for row in rows]
    if asked.scale == "own":
        view = _own_view(rows, bounds, times.extents(cur, ids))
    else:
        view = _view(rows, bounds, picture.first_covered(cur, ids), asked)
    blocks = (
        picture.blocks_by_offset(cur, view)
        + picture.decided(cur, view)
        + picture.uncovered(cur, view, streams.logs())
        + picture.claimed(cur, view)
    )
    dots = picture.rejects_by_place(cur, view)
    own, scale = bool(view.own), drawing.Scale(view.from_offset, view.until_offset)
    return {
        "lanes": drawing.lanes(view, rows, bounds, blocks, dots),
        "stretch": "each partition along its own offsets"
        if own
        else f"offsets {number(view.from_offset)} to {number(view.until_offset)}",
        "edges": (view.from_offset, view.until_offset),
        "numbers": (view.from_offset, view.until_offset),
        "ticks": [] if own else [(x, number(offset)) for x, offset in scale.ticks()],
        "hours": [],
        "through": None,
        "zooms": {} if own else _zooms(view),
        "told": count_kinds(blocks, dots),
    }


def _view(rows: list[Any], bounds: dict[int, Bounds], first: int | None, asked: CoverageChoices) -> picture.View:
    lows = [row.start_offset for row in rows] + ([first] if first is not None else [])
    highs = [row.position for row in rows] + [own.stable_end for own in bounds.values()]
    low, high = _offset(asked.from_, min(lows)), _offset(asked.until, max(highs))
    if asked.until and high <= low:
        raise HTTPException(400, f"offsets [{low}, {high}): a view begins at 0 or later and ends after it begins")
    return picture.View(tuple(row.stream_id for row in rows), low, max(high, low + 1))


def _own_view(rows: list[Any], bounds: dict[int, Bounds], known: dict[int, times.TimeWindow]) -> picture.View:
    """Returns the view in which each stream is shown whole, from its first known offset to its log's end."""
    own = {}
    for row in rows:
        low, high = known[row.stream_id]
        log = bounds.get(row.stream_id)
        own[row.stream_id] = (low, max(high, log.stable_end if log else high, low + 1))
    lows, highs = zip(*own.values(), strict=True)
    return picture.View(tuple(own), min(lows), max(highs), own)


def _offset(text: str | None, otherwise: int) -> int:
    if not text:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_OFFSET_DIGITS and int(text) <= MOST_OFFSET):
        raise HTTPException(400, f"{text[:40]!r} is no offset")
    return int(text)


def _zooms(view: picture.View) -> dict[str, tuple[int, int]]:
    low, high = view.from_offset, view.until_offset
    span = high - low
    quarter, half = span // 4, span // 2
    return {
        "in": (low + quarter, max(low + quarter + 1, high - quarter)),
        "out": (max(0, low - half), high + half),
        "earlier": (max(0, low - half), max(1, high - min(half, low))),
        "later": (low + half, high + half),
    }
