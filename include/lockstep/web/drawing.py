"""Places the parts of a picture along offsets, with lanes from top to bottom. The templates draw them.

`clock` places them along time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lockstep.core.offsets import Bounds
    from lockstep.ledger.picture import Block, View

WIDTH = 1000  # of the lanes, in units of the picture. The page stretches it.
LANE, GAP = 20, 8
AGES = 6  # shades, the newest the strongest
TICKS = 8  # along the axis, at most
NARROW = 0.8  # of a unit: narrower parts cannot be seen


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale from offsets to places along the picture."""

    from_offset: int
    until_offset: int

    def at(self, offset: int) -> float:
        """Returns the place of an offset. An offset outside is at the edge."""
        span = max(1, self.until_offset - self.from_offset)
        return round(WIDTH * min(max(offset - self.from_offset, 0), span) / span, 2)

    def box(self, from_offset: int, until_offset: int) -> tuple[float, float]:
        """Returns left edge and width. Nothing is too narrow to be seen."""
        left = self.at(from_offset)
        return left, max(round(self.at(until_offset) - left, 2), NARROW)

    def ticks(self) -> list[tuple[float, int]]:
        """Returns round offsets for the axis, with their places."""
        span = max(1, self.until_offset - self.from_offset)
        step = next(s for e in range(20) for s in (10**e, 2 * 10**e, 5 * 10**e) if span / s <= TICKS)
        first = -(-self.from_offset // step) * step
        return [(self.at(offset), offset) for offset in range(first, self.until_offset + 1, step)]


def lane(number: int, row: Any, own: Bounds | None) -> dict[str, Any]:
    """Returns the facts of a stream beside its lane. `own` are its log's bounds in Kafka."""
    return {
        "partition": row.partition,
        "topic": row.topic,
        "y": number * (LANE + GAP),
        "position": row.position,
        "log_start": own.log_start if own else None,
        "lag": own.stable_end - row.position if own else None,
        "position_x": None,
        "trimmed": None,
        "waiting": None,
    }


def lanes(
    view: View, rows: Iterable[Any], bounds: dict[int, Bounds], blocks: list[Block], dots: list[Any]
) -> list[dict[str, Any]]:
    """Returns one document per stream, top to bottom: its blocks, holes, rejects and marks, placed by offset."""
    scale, shades = Scale(view.from_offset, view.until_offset), Shades.of(blocks)
    drawn = []
    for number, row in enumerate(rows):
        own = bounds.get(row.stream_id)
        low = own.log_start if own else 0
        drawn.append(
            lane(number, row, own)
            | {
                "position_x": scale.at(row.position) if _inside(view, row.position) else None,
                "trimmed": scale.box(view.from_offset, low) if low > view.from_offset else None,
                "waiting": scale.box(row.position, own.stable_end) if own and own.stable_end > row.position else None,
                "blocks": [
                    placed(b, scale.box(b.from_offset, b.until_offset), (b.from_offset, b.until_offset), shades)
                    for b in blocks
                    if b.stream_id == row.stream_id
                ],
                "rejects": [
                    {"x": scale.at(d.first), "count": d.rejects, "first": d.first}
                    for d in dots
                    if d.stream_id == row.stream_id
                ],
            }
        )
    return drawn


def height(lanes_drawn: list[Any]) -> int:
    """Returns the height of all lanes together."""
    return max(1, len(lanes_drawn)) * (LANE + GAP)


@dataclass(frozen=True, slots=True)
class Shades:
    """The first and the last commit time of a picture's blocks."""

    oldest: datetime | None
    newest: datetime | None

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> Shades:
        """Returns the first and the last commit time of these blocks."""
        times = [block.committed_at for block in blocks if block.committed_at]
        return cls(min(times, default=None), max(times, default=None))

    def age(self, at: datetime | None) -> int:
        """Returns the shade of a commit time, 0 for the newest."""
        if at is None or self.oldest is None or self.newest is None or self.newest == self.oldest:
            return 0
        return round((AGES - 1) * (self.newest - at).total_seconds() / (self.newest - self.oldest).total_seconds())


def placed(
    block: Block, box: tuple[float, float], edges: tuple[Any, Any], shades: Shades, times: str = ""
) -> dict[str, Any]:
    """Returns a block with its left edge and width, and its exact edges for a tooltip."""
    age = shades.age(block.committed_at)
    return {"block": block, "x": box[0], "width": box[1], "age": age, "edges": edges, "times": times}


def _inside(view: View, offset: int) -> bool:
    return view.from_offset <= offset <= view.until_offset
