"""Reads the blocks of a coverage picture: exact for few segments, sampled place by place for many."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lockstep.core.states import CoverageKind
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.views", "picture")
MOST_SEGMENTS = 120  # of one stream. More than that are sampled in `PLACES`.
MOST_BLOCKS = 2_400  # of all streams together, where they are that many
PLACES, MOST_LOOKS = 240, 3_600  # of one stream, and of all together
REJECT_PLACES = 80  # along a stream at which rejects are counted
PLACES_PER_PICTURE = 24  # what is looked at in places is drawn in about so many parts
HOLE, PLANNED = "hole", "planned"  # kinds of blocks that are no coverage


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of one stream with one owner. `batch_id` is None for losses and skips.

    A dense block stands for several batches of its lane, and `batch_id` is the last of them.
    """

    stream_id: int
    from_offset: int
    until_offset: int
    kind: str
    batch_id: int | None = None
    lane: str | None = None
    committed_at: datetime | None = None
    dense: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """The streams and the half-open offset range that a picture shows.

    `own` are ranges within it by stream, for a picture in which each stream has its own scale.
    """

    streams: tuple[int, ...]
    from_offset: int
    until_offset: int
    own: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def range_of(self, stream: int) -> tuple[int, int]:
        """Returns the offsets of this stream that the picture shows."""
        return self.own.get(stream, (self.from_offset, self.until_offset))

    def step(self, stream: int) -> int:
        """Returns the number of offsets that one place of this stream's lane stands for."""
        return self._share(stream, places(len(self.streams)))

    def looks(self, streams: Sequence[int], parts: int | None = None) -> dict[str, Any]:
        """Returns the ranges of these streams and their steps, as columns."""
        ranges = [self.range_of(stream) for stream in streams]
        return {
            "streams": list(streams),
            "froms": [low for low, _ in ranges],
            "untils": [high for _, high in ranges],
            "steps": [self._share(stream, parts) if parts else self.step(stream) for stream in streams],
        }

    def _share(self, stream: int, parts: int) -> int:
        low, high = self.range_of(stream)
        return max(1, -(-(high - low) // parts))


def most_segments(lanes: int) -> int:
    """Returns how many segments of one stream are drawn one by one, in a picture of so many lanes."""
    return min(MOST_SEGMENTS, max(PLACES_PER_PICTURE, MOST_BLOCKS // max(1, lanes)))


def places(lanes: int) -> int:
    """Returns at how many places a stream with more segments is looked at, in a picture of so many lanes."""
    return min(PLACES, max(PLACES_PER_PICTURE, MOST_LOOKS // max(1, lanes)))


def drawn_streams(cur: cursor, pipeline: str) -> list[Any]:
    """Returns all open streams, in the order of their lanes."""
    cur.execute(Q["streams_of_picture"], {"pipeline": pipeline})
    return every(cur)


def first_covered(cur: cursor, stream_ids: Sequence[int]) -> int | None:
    """Returns the first offset ever covered of these streams, or None."""
    cur.execute(Q["first_covered"], {"streams": list(stream_ids)})
    first: int | None = one(cur).first
    return first


def blocks_by_offset(cur: cursor, view: View) -> list[Block]:
    """Returns the batches' blocks in the view, each stream's by offset, at most some hundred of each stream."""
    most = most_segments(len(view.streams))
    cur.execute(Q["segments"], _named(view) | {"most": most})
    by_stream = {stream: list(rows) for stream, rows in groupby(every(cur), key=lambda row: row.stream_id)}
    dense = [stream for stream, rows in by_stream.items() if len(rows) > most]
    found = [block_of(row) for stream, rows in by_stream.items() if stream not in dense for row in rows]
    if dense:
        cur.execute(Q["looks"], view.looks(dense) | {"parts": PLACES_PER_PICTURE})
        found += [block_of(row, dense=True) for row in every(cur)]
    return found


def uncovered(cur: cursor, view: View, logs: Mapping[int, tuple[int, int]]) -> list[Block]:
    """Returns every hole in the view. `logs` are log start and position by stream."""
    starts, positions = zip(*logs.values(), strict=True) if logs else ((), ())
    known = {"streams": list(logs), "starts": list(starts), "positions": list(positions)}
    cur.execute(Q["uncovered"], _named(view) | known)
    return [Block(row.stream_id, row.from_offset, row.until_offset, HOLE) for row in every(cur)]


def claimed(cur: cursor, view: View) -> list[Block]:
    """Returns what planned batches work on in the view, as blocks of the kind `planned`."""
    cur.execute(Q["claimed"], _named(view))
    return [
        Block(row.stream_id, row.from_offset, row.until_offset, PLANNED, row.batch_id, row.lane) for row in every(cur)
    ]


def decided(cur: cursor, view: View) -> list[Block]:
    """Returns every loss and skip in the view."""
    cur.execute(Q["decided"], _named(view))
    return [Block(row.stream_id, row.from_offset, row.until_offset, row.kind) for row in every(cur)]


def rejects_by_place(cur: cursor, view: View) -> list[Any]:
    """Counts rejects by place, as rows `stream_id, place, rejects, first`."""
    cur.execute(Q["rejects_of_picture"], view.looks(view.streams, REJECT_PLACES))
    return every(cur)


def block_of(row: Any, *, dense: bool = False) -> Block:
    """Returns the block of a batch's row."""
    return Block(
        row.stream_id,
        row.from_offset,
        row.until_offset,
        CoverageKind.BATCH,
        row.batch_id,
        row.lane,
        row.closed_at,
        dense=dense,
    )


def _named(view: View) -> dict[str, Any]:
    return {"streams": list(view.streams), "from": view.from_offset, "until": view.until_offset}
