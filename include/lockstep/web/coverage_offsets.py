"""Draws the coverage along offsets: each segment at its place in its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.core.bounds import MOST
from lockstep.ledger import picture
from lockstep.web import drawing
from lockstep.web.asked import told
from lockstep.web.place import ledger
from lockstep.web.render import number

if TYPE_CHECKING:
    from lockstep.core.offsets import Bounds
    from lockstep.web.asked import Asked, Streams


DIGITS = 19  # digits of the largest offset. Python refuses to read some thousands.


def along_offsets(streams: Streams, asked: Asked) -> dict[str, Any]:
    """Returns the picture's values, with each segment at its offsets."""
    rows, bounds = streams.rows, streams.bounds
    with ledger() as cur:
        view = _view(rows, bounds, picture.first_covered(cur, [row.stream_id for row in rows]), asked)
        blocks = picture.blocks(cur, view) + picture.decided(cur, view) + picture.uncovered(cur, view, streams.logs())
        dots = picture.rejects(cur, view)
    scale = drawing.Scale(view.from_offset, view.until_offset)
    return {
        "lanes": drawing.lanes(view, rows, bounds, blocks, dots),
        "stretch": f"offsets {number(view.from_offset)} to {number(view.until_offset)}",
        "edges": (view.from_offset, view.until_offset),
        "numbers": (view.from_offset, view.until_offset),
        "ticks": [(x, number(offset)) for x, offset in scale.ticks()],
        "hours": [],
        "through": None,
        "zooms": _zooms(view),
        "told": told(blocks, dots),
    }


def _view(rows: list[Any], bounds: dict[int, Bounds], first: int | None, asked: Asked) -> picture.View:
    lows = [row.start_offset for row in rows] + ([first] if first is not None else [])
    highs = [row.position for row in rows] + [own.stable_end for own in bounds.values()]
    low, high = _offset(asked.from_, min(lows)), _offset(asked.until, max(highs))
    if asked.until and high <= low:
        raise HTTPException(422, f"offsets [{low}, {high}): a view begins at 0 or later and ends after it begins")
    return picture.View(tuple(row.stream_id for row in rows), low, max(high, low + 1))


def _offset(text: str | None, otherwise: int) -> int:
    if not text:
        return otherwise
    if not (text.isascii() and text.isdecimal() and len(text) <= DIGITS and int(text) <= MOST):
        raise HTTPException(422, f"{text[:40]!r} is no offset")
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
