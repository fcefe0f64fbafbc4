"""Places the parts of a picture along offsets, with lanes from top to bottom. The templates draw them.

`clock` places them along time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lockstep.core.states import Lane
from lockstep.ledger.views.picture import PLANNED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from lockstep.core.offsets import Bounds
    from lockstep.ledger.views.picture import Block, View

LANE_WIDTH = 1000  # of the lanes, in units of the picture. The page stretches it.
LANE, LANE_GAP = 20, 8
AGES = 6  # shades, the newest the strongest
TICKS = 8  # along the axis, at most
TOUCH = 4.0  # units by which neighbours in time may overlap: records do not come in the order of their times
NARROW = 0.8  # of a unit: narrower parts cannot be seen


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale from offsets to places along the picture."""

    from_offset: int
    until_offset: int

    def at(self, offset: int) -> float:
        """Returns the place of an offset. An offset outside is at the edge."""
        span = max(1, self.until_offset - self.from_offset)
        return round(LANE_WIDTH * min(max(offset - self.from_offset, 0), span) / span, 2)

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


STRIP = 7  # height of what stands at the foot of a lane, over what it works on
HALF = (LANE - 1) / 2  # height of a block in a lane of two tracks


def lane(number: int, row: Any, own: Bounds | None) -> dict[str, Any]:
    """Returns the facts of a stream beside its lane. `own` are its log's bounds in Kafka."""
    return {
        "partition": row.partition,
        "topic": row.topic,
        "y": number * (LANE + LANE_GAP),
        "position": row.position,
        "log_start": own.log_start if own else None,
        "lag": own.stable_end - row.position if own else None,
        "range": None,
        "position_x": None,
        "trimmed": None,
        "waiting": None,
        "waiting_since": None,
    }


def lanes(
    view: View, rows: Iterable[Any], bounds: dict[int, Bounds], blocks: list[Block], dots: list[Any]
) -> list[dict[str, Any]]:
    """Returns one document per stream, top to bottom: its blocks, holes, rejects and marks, placed by offset."""
    shades = Shades.of(blocks)
    blocks_of, dots_of = by_stream(blocks), by_stream(dots)
    drawn = []
    for number, row in enumerate(rows):
        own = bounds.get(row.stream_id)
        shown = view.range_of(row.stream_id)
        scale, low = Scale(*shown), own.log_start if own else 0
        drawn.append(
            lane(number, row, own)
            | {
                "range": shown if view.own else None,
                "position_x": scale.at(row.position) if shown[0] <= row.position <= shown[1] else None,
                "trimmed": scale.box(shown[0], low) if low > shown[0] else None,
                "waiting": scale.box(row.position, own.stable_end) if own and own.stable_end > row.position else None,
                "blocks": [
                    placed(b, scale.box(b.from_offset, b.until_offset), (b.from_offset, b.until_offset), shades)
                    for b in blocks_of[row.stream_id]
                ],
                "rejects": [
                    {"x": scale.at(d.first), "count": d.rejects, "first": d.first} for d in dots_of[row.stream_id]
                ],
            }
        )
    return drawn


class _OfStream(Protocol):
    @property
    def stream_id(self) -> int: ...


_Part = TypeVar("_Part", bound=_OfStream)


def by_stream(parts: Iterable[_Part]) -> Mapping[int, list[_Part]]:
    """Groups the parts of a picture by their streams. A stream without any has an empty list."""
    found = defaultdict(list)
    for part in parts:
        found[part.stream_id].append(part)
    return found


def height(lanes_drawn: list[Any]) -> int:
    """Returns the height of all lanes together."""
    return max(1, len(lanes_drawn)) * (LANE + LANE_GAP)


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


@dataclass(frozen=True, slots=True)
class Placed:
    """A block with its place in the lane, and its exact edges for a tooltip."""

    block: Block
    x: float
    width: float
    y: float
    height: float
    age: int
    edges: tuple[Any, Any]
    times: str


def placed(block: Block, box: tuple[float, float], edges: tuple[Any, Any], shades: Shades, times: str = "") -> Placed:
    """Places a block in its lane.

    The planned block of a replay is a strip at the foot of the lane. The blocks under it stay visible.
    """
    y, high = (LANE - STRIP, STRIP) if block.kind == PLANNED and block.lane == Lane.REPLAY else (0, LANE)
    return Placed(block, *box, y, high, shades.age(block.committed_at), edges, times)


def on_tracks(blocks: list[Placed]) -> list[Placed]:
    """Moves blocks that lie over each other to two tracks of the lane, so that none hides another.

    Tolerates an overlap that is too narrow to matter.
    """
    ends, tracks = [-inf, -inf], []
    for block in sorted(blocks, key=lambda each: each.x):
        track = 0 if block.x >= ends[0] - TOUCH else 1
        ends[track] = max(ends[track], block.x + block.width)
        tracks.append((block, track))
    if not any(track for _, track in tracks):
        return blocks
    return [replace(block, y=track * (LANE - HALF), height=HALF) for block, track in tracks]
