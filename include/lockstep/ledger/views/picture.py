"""Reads the blocks of a coverage picture: exact for few segments, sampled place by place for many."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.views", "picture")
MOST_SEGMENTS = 120  # of one stream. More than that are sampled in `PLACES`.
MOST_BLOCKS = 2_400  # of all streams together, where they are that many
PLACES, MOST_LOOKS = 240, 4_800  # of one stream, and of all together
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
    """Returns the batches' blocks in the view by stream and offset, at most some hundred of each stream."""
    most = most_segments(len(view.streams))
    cur.execute(Q["segments"], _named(view) | {"most": most})
    by_stream = {stream: list(rows) for stream, rows in groupby(every(cur), key=lambda row: row.stream_id)}
    dense = [stream for stream, rows in by_stream.items() if len(rows) > most]
    found = [_block(row) for stream, rows in by_stream.items() if stream not in dense for row in rows]
    if dense:
        cur.execute(Q["looks"], view.looks(dense))
        for _, rows in groupby(every(cur), key=lambda row: row.stream_id):
            found += _places(list(rows), view)
    return _merged(with_batches(cur, sorted(found, key=lambda block: (block.stream_id, block.from_offset))), view)


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
    return [_block(row) for row in every(cur)]


def rejects_by_place(cur: cursor, view: View) -> list[Any]:
    """Counts rejects by place, as rows `stream_id, place, rejects, first`."""
    cur.execute(Q["rejects_of_picture"], view.looks(view.streams, REJECT_PLACES))
    return every(cur)


def _places(rows: list[Any], view: View) -> list[Block]:
    """Returns a dense block, as wide as a place, for each sampled row of one stream."""
    (stream,) = {row.stream_id for row in rows}
    step, until = view.step(stream), view.range_of(stream)[1]
    return [Block(stream, r.place, min(r.place + step, until), r.kind, r.batch_id, dense=True) for r in rows]


def _merged(found: list[Block], view: View) -> list[Block]:
    """Merges neighbouring places of one lane into blocks no wider than a part of the view."""
    widest = {
        stream: (high - low) // PLACES_PER_PICTURE for stream in view.streams for low, high in [view.range_of(stream)]
    }
    merged: list[Block] = []
    for block in found:
        last = merged[-1] if merged else None
        if (
            last
            and last.dense
            and block.dense
            and (last.stream_id, last.kind, last.lane) == (block.stream_id, block.kind, block.lane)
            and last.until_offset == block.from_offset
            and (last.batch_id == block.batch_id or block.until_offset - last.from_offset <= widest[block.stream_id])
        ):
            merged[-1] = replace(block, from_offset=last.from_offset)
        else:
            merged.append(block)
    return merged


def with_batches(cur: cursor, found: Sequence[Block]) -> list[Block]:
    """Returns the same blocks, with lane and commit time of each batch."""
    cur.execute(Q["batches_of_picture"], {"batches": list({b.batch_id for b in found if b.batch_id is not None})})
    known = {row.batch_id: row for row in every(cur)}
    return [
        Block(b.stream_id, b.from_offset, b.until_offset, b.kind, b.batch_id, row.lane, row.closed_at, b.dense)
        if (row := known.get(b.batch_id))
        else b
        for b in found
    ]


def _block(row: Any) -> Block:
    return Block(row.stream_id, row.from_offset, row.until_offset, row.kind, getattr(row, "batch_id", None))


def _named(view: View) -> dict[str, Any]:
    return {"streams": list(view.streams), "from": view.from_offset, "until": view.until_offset}
