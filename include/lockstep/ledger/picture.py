"""Reads the blocks of a coverage picture: exact for few segments, sampled place by place for many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger", "picture")
MOST_SEGMENTS = 120  # of one stream. More than that are sampled in `PLACES`.
MOST_BLOCKS = 2_400  # of all streams together, where they are that many
PLACES, MOST_LOOKS = 240, 4_800  # of one stream, and of all together
REJECT_PLACES = 80  # along a stream at which rejects are counted
PARTS = 24  # what is looked at in places is drawn in about so many parts


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
    """The streams and the half-open offset range that a picture shows."""

    streams: tuple[int, ...]
    from_offset: int
    until_offset: int

    @property
    def step(self) -> int:
        """Returns the number of offsets that one place of the picture stands for."""
        places = min(PLACES, MOST_LOOKS // max(1, len(self.streams)))
        return max(1, -(-(self.until_offset - self.from_offset) // places))


def streams(cur: cursor, pipeline: str, after: int, most: int) -> tuple[list[Any], int]:
    """Returns at most `most` open streams after the first `after`, and the number of all open streams."""
    cur.execute(Q["streams_of_picture"], {"pipeline": pipeline, "after": after, "most": most})
    found = every(cur)
    cur.execute(Q["count_streams"], {"pipeline": pipeline})
    return found, one(cur).streams


def first_covered(cur: cursor, stream_ids: Sequence[int]) -> int | None:
    """Returns the first offset ever covered of these streams, or None."""
    cur.execute(Q["first_covered"], {"streams": list(stream_ids)})
    first: int | None = one(cur).first
    return first


def blocks(cur: cursor, view: View) -> list[Block]:
    """Returns the batches' blocks in the view by stream and offset, at most some hundred of each stream."""
    most = min(MOST_SEGMENTS, max(PARTS, MOST_BLOCKS // max(1, len(view.streams))))
    cur.execute(Q["segments"], _named(view) | {"most": most})
    by_stream = {stream: list(rows) for stream, rows in groupby(every(cur), key=lambda row: row.stream_id)}
    dense = [stream for stream, rows in by_stream.items() if len(rows) > most]
    found = [_block(row) for stream, rows in by_stream.items() if stream not in dense for row in rows]
    if dense:
        cur.execute(Q["looks"], _named(view) | {"streams": dense, "step": view.step})
        for _, rows in groupby(every(cur), key=lambda row: row.stream_id):
            found += _places(list(rows), view)
    return _merged(with_batches(cur, sorted(found, key=lambda block: (block.stream_id, block.from_offset))), view)


def uncovered(cur: cursor, view: View, logs: Mapping[int, tuple[int, int]]) -> list[Block]:
    """Returns every hole in the view. `logs` are log start and position by stream."""
    starts, positions = zip(*logs.values(), strict=True) if logs else ((), ())
    known = {"streams": list(logs), "starts": list(starts), "positions": list(positions)}
    cur.execute(Q["uncovered"], _named(view) | known)
    return [Block(row.stream_id, row.from_offset, row.until_offset, "hole") for row in every(cur)]


def decided(cur: cursor, view: View) -> list[Block]:
    """Returns every loss and skip in the view."""
    cur.execute(Q["decided"], _named(view))
    return [_block(row) for row in every(cur)]


def rejects(cur: cursor, view: View) -> list[Any]:
    """Counts rejects by place, as rows `stream_id, place, rejects, first`."""
    step = max(1, -(-(view.until_offset - view.from_offset) // REJECT_PLACES))
    cur.execute(Q["rejects_of_picture"], _named(view) | {"step": step})
    return every(cur)


def _places(rows: list[Any], view: View) -> list[Block]:
    """Returns a dense block, as wide as a place, for each sampled row."""
    return [
        Block(r.stream_id, r.place, min(r.place + view.step, view.until_offset), r.kind, r.batch_id, dense=True)
        for r in rows
    ]


def _merged(found: list[Block], view: View) -> list[Block]:
    """Merges neighbouring places of one lane into blocks no wider than a part of the view."""
    widest = (view.until_offset - view.from_offset) // PARTS
    merged: list[Block] = []
    for block in found:
        last = merged[-1] if merged else None
        if (
            last
            and last.dense
            and block.dense
            and (last.stream_id, last.kind, last.lane) == (block.stream_id, block.kind, block.lane)
            and last.until_offset == block.from_offset
            and (last.batch_id == block.batch_id or block.until_offset - last.from_offset <= widest)
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
