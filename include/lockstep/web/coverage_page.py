"""Coverage: partitions as lanes, offsets along, every segment a block that leads to its batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.ledger import picture
from lockstep.steps.warn import bounds_of
from lockstep.web import drawing
from lockstep.web.place import ledger, pipeline_of, view_of
from lockstep.web.render import page

if TYPE_CHECKING:
    from lockstep.core.offsets import Bounds

LANES = 40  # on one page
COLOURS = ("lane", "age")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reader wants to see: a stretch of offsets (all of it without), a page of partitions, and by what to colour."""

    from_offset: int | None = None
    until_offset: int | None = None
    first: int = 0
    colour: str = "lane"


def coverage_page(dag_id: str, asked: Asked) -> str:
    """The picture of a pipeline's coverage, with what it says in words below."""
    name = pipeline_of(dag_id)
    with ledger() as cur:
        rows, count = picture.streams(cur, name, asked.first, LANES)
    if not rows:
        return page("coverage.html.jinja", dag_id=dag_id, pipeline=name, lanes=[], count=count, asked=asked)
    topic, unknown = view_of(rows[0].topic)
    bounds = {row.stream_id: own for row in rows if topic and (own := bounds_of(row, topic))}
    with ledger() as cur:
        view = _view(rows, bounds, picture.first_covered(cur, [row.stream_id for row in rows]), asked)
        logs = {
            r.stream_id: (b.log_start if (b := bounds.get(r.stream_id)) else r.start_offset, r.position) for r in rows
        }
        blocks = picture.blocks(cur, view) + picture.decided(cur, view) + picture.uncovered(cur, view, logs)
        dots = picture.rejects(cur, view)
    lanes = drawing.lanes(view, rows, bounds, blocks, dots)
    return page(
        "coverage.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        lanes=lanes,
        count=count,
        asked=asked,
        view=view,
        scale=drawing.Scale(view.from_offset, view.until_offset),
        height=drawing.height(lanes),
        width=drawing.WIDTH,
        lane_height=drawing.LANE,
        unknown=unknown,
        zooms=_zooms(view),
        most=LANES,
        told=_told(blocks, dots),
    )


def _view(rows: list[Any], bounds: dict[int, Bounds], first: int | None, asked: Asked) -> picture.View:
    lows = [row.start_offset for row in rows] + ([first] if first is not None else [])
    highs = [row.position for row in rows] + [own.stable_end for own in bounds.values()]
    low = asked.from_offset if asked.from_offset is not None else min(lows)
    high = asked.until_offset if asked.until_offset is not None else max(highs)
    if low < 0 or (asked.until_offset is not None and high <= low):
        raise HTTPException(422, f"offsets [{low}, {high}): a view begins at 0 or later and ends after it begins")
    return picture.View(tuple(row.stream_id for row in rows), low, max(high, low + 1))


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


def _told(blocks: list[picture.Block], dots: list[Any]) -> dict[str, int]:
    """How much of what nobody should overlook is in the picture."""
    return {
        "holes": sum(block.kind == "hole" for block in blocks),
        "skipped": sum(block.kind == "skipped" for block in blocks),
        "losses": sum(block.kind == "loss" for block in blocks),
        "rejects": sum(dot.rejects for dot in dots),
    }
