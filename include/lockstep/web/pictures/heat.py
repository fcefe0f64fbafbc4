"""Draws the lag of all partitions as one strip, the greatest first, and names the partitions most behind."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lockstep.web.pictures.drawing import LANE_WIDTH
from lockstep.web.render import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockstep.core.offsets import Bounds

CELLS = 200  # of the strip at most. More partitions than that share them.
SHADES = 4  # above nothing
MOST_NAMED_PARTITIONS = 5  # partitions


def heat(rows: Sequence[Any], bounds: Mapping[int, Bounds], page: int) -> dict[str, Any] | None:
    """Returns the strip's cells, the total lag and the partitions most behind, or None if no lag is known.

    `page` is the number of lanes on a page, for the links to the lanes.
    """
    known = [
        (bounds[row.stream_id].stable_end - row.position, i, row)
        for i, row in enumerate(rows)
        if row.stream_id in bounds
    ]
    if not known:
        return None
    known.sort(key=lambda each: (-each[0], each[1]))
    most, size = max(known[0][0], 1), -(-len(known) // CELLS)
    parts = [known[i : i + size] for i in range(0, len(known), size)]
    width = LANE_WIDTH / len(known)
    return {
        "total": sum(max(lag, 0) for lag, _, _ in known),
        "unknown": len(rows) - len(known),
        "cells": [
            {"x": round(i * size * width, 2), "width": round(len(part) * width, 2), "shade": shade(part[0][0], most)}
            | {"words": _words(part)}
            for i, part in enumerate(parts)
        ],
        "most": [
            {"topic": row.topic, "partition": row.partition, "lag": lag, "first": i - i % page}
            for lag, i, row in known[:MOST_NAMED_PARTITIONS]
            if lag > 0
        ],
    }


def shade(lag: int, most: int) -> int:
    """Returns 0 for no lag, else 1 to 4 on a logarithmic scale up to the greatest lag."""
    return 0 if lag <= 0 else max(1, math.ceil(SHADES * math.log1p(lag) / math.log1p(most)))


def _words(part: Sequence[tuple[int, int, Any]]) -> str:
    greatest, least = part[0][0], part[-1][0]
    if len(part) == 1:
        return f"partition {part[0][2].partition}: {number(greatest)} offsets wait"
    return f"{len(part)} partitions: {number(least)} to {number(greatest)} offsets wait in each"
