"""Where things stand in a picture: lanes down, offsets along; the templates draw, this counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lockstep.ledger.picture import Block, View

WIDTH = 1000  # of the lanes, in units of the picture; the page stretches it
LANE, GAP = 20, 8
AGES = 6  # shades, the newest the strongest
TICKS = 8  # along the axis, at most
NARROW = 0.8  # of a unit: what is narrower cannot be seen


@dataclass(frozen=True, slots=True)
class Scale:
    """Offsets to places along."""

    from_offset: int
    until_offset: int

    def at(self, offset: int) -> float:
        """Where an offset begins; what lies outside is at the edge."""
        span = max(1, self.until_offset - self.from_offset)
        return round(WIDTH * min(max(offset - self.from_offset, 0), span) / span, 2)

    def box(self, from_offset: int, until_offset: int) -> tuple[float, float]:
        """Left edge and width; nothing is too narrow to be seen."""
        left = self.at(from_offset)
        return left, max(round(self.at(until_offset) - left, 2), NARROW)

    def ticks(self) -> list[tuple[float, int]]:
        """Round offsets to write along the axis."""
        span = max(1, self.until_offset - self.from_offset)
        step = next(s for e in range(20) for s in (10**e, 2 * 10**e, 5 * 10**e) if span / s <= TICKS)
        first = -(-self.from_offset // step) * step
        return [(self.at(offset), offset) for offset in range(first, self.until_offset + 1, step)]


def lanes(view: View, rows: Iterable[Any], bounds: dict[int, Any], blocks: list[Block], dots: list[Any]) -> list[Any]:
    """One document a stream, top to bottom: its blocks, holes, rejects and marks, placed."""
    scale = Scale(view.from_offset, view.until_offset)
    newest = max((b.committed_at for b in blocks if b.committed_at), default=None)
    oldest = min((b.committed_at for b in blocks if b.committed_at), default=None)
    drawn = []
    for number, row in enumerate(rows):
        own = bounds.get(row.stream_id)
        drawn.append(
            {
                "partition": row.partition,
                "topic": row.topic,
                "y": number * (LANE + GAP),
                "position": row.position,
                "position_x": scale.at(row.position) if _inside(view, row.position) else None,
                "log_start": own.log_start if own else None,
                "trimmed": scale.box(view.from_offset, own.log_start)
                if own and own.log_start > view.from_offset
                else None,
                "waiting": scale.box(row.position, own.stable_end) if own and own.stable_end > row.position else None,
                "lag": own.stable_end - row.position if own else None,
                "blocks": [_placed(b, scale, oldest, newest) for b in blocks if b.stream_id == row.stream_id],
                "rejects": [
                    {"x": scale.at(d.first), "count": d.rejects, "first": d.first}
                    for d in dots
                    if d.stream_id == row.stream_id
                ],
            }
        )
    return drawn


def height(lanes_drawn: list[Any]) -> int:
    """Of all lanes together."""
    return max(1, len(lanes_drawn)) * (LANE + GAP)


def _placed(block: Block, scale: Scale, oldest: datetime | None, newest: datetime | None) -> dict[str, Any]:
    left, width = scale.box(block.from_offset, block.until_offset)
    return {"block": block, "x": left, "width": width, "age": _age(block.committed_at, oldest, newest)}


def _age(at: datetime | None, oldest: datetime | None, newest: datetime | None) -> int:
    """0 is the newest shade."""
    if at is None or oldest is None or newest is None or newest == oldest:
        return 0
    return round((AGES - 1) * (newest - at).total_seconds() / (newest - oldest).total_seconds())


def _inside(view: View, offset: int) -> bool:
    return view.from_offset <= offset <= view.until_offset
