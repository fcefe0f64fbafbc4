"""Cuts the remaining work of a fill or replay into pieces, and chooses those of the next batch."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.planning.batch_size import budget
from lockstep.core.planning.live import fair_shares

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockstep.core.pipeline.definition import Limits
    from lockstep.core.planning.decisions import Pace
    from lockstep.core.states import Expected


@dataclass(frozen=True, slots=True, order=True)
class Piece:
    """Offsets of one stream for a request to work on, and what covers them: `nothing`, `skipped` or a `batch`.

    A piece that a batch owns is one whole segment, the unit of replay (T10). `owner` is that batch.
    """

    item: StreamRange
    expects: Expected
    owner: int | None = None

    @property
    def begin(self) -> int:
        """Returns its first offset."""
        return self.item.offsets.from_offset

    @property
    def end(self) -> int:
        """Returns the first offset behind it."""
        return self.item.offsets.until_offset

    def between(self, begin: int, end: int) -> Piece:
        """Returns the part of the piece that lies in [begin, end)."""
        part = OffsetRange(self.item.offsets.topic_partition, max(begin, self.begin), min(end, self.end))
        return replace(self, item=StreamRange(self.item.stream_id, part))


@dataclass(frozen=True, slots=True)
class Taken:
    """Offsets that a batch works on. `batch_id` is None for offsets that a preview has already finished."""

    stream_id: int
    begin: int
    end: int
    batch_id: int | None


def untaken(
    pieces: Iterable[Piece], taken: Iterable[Taken], *, whole_batches: bool = False
) -> tuple[tuple[Piece, ...], set[int]]:
    """Returns the pieces that no batch works on, and the batches that work on the others.

    A segment is free as a whole or not at all. With `whole_batches`, the same holds for all segments of one owner.
    """
    by_stream: dict[int, list[Taken]] = defaultdict(list)
    for part in taken:
        by_stream[part.stream_id].append(part)
    free: list[Piece] = []
    by: set[int] = set()
    owners: set[int | None] = set()
    for piece in pieces:
        over = [t for t in by_stream[piece.item.stream_id] if t.begin < piece.end and piece.begin < t.end]
        by |= {t.batch_id for t in over if t.batch_id is not None}
        if not over:
            free.append(piece)
        elif piece.owner is None:
            free.extend(_without(piece, over))
        elif whole_batches:
            owners.add(piece.owner)
    return tuple(sorted(piece for piece in free if piece.owner not in owners)), by


def next_pieces(limits: Limits, pace: Pace, pieces: Sequence[Piece], *, whole_batches: bool) -> tuple[Piece, ...]:
    """Returns the pieces of the next batch: each partition's first stretch of adjacent pieces, within the limits.

    `whole_batches` takes every segment of an owner or none. Code that may have mixed their partitions needs this.
    """
    total = budget(limits, pace)
    if whole_batches and any(piece.owner is not None for piece in pieces):
        return _whole_batches(pieces, total)
    stretches = [_first_stretch(list(each)) for _, each in groupby(sorted(pieces), key=lambda p: p.item.stream_id)]
    first = {stretch[0].item.offsets.topic_partition: stretch for stretch in reversed(stretches)}
    spans = {p: min(s[-1].end - s[0].begin, limits.per_partition or total) for p, s in sorted(first.items())}
    chosen = [part for p, share in fair_shares(spans, total).items() for part in _as_far_as(first[p], share)]
    if not chosen and first:  # no whole segment fits: one must go, for a segment is never split
        chosen = [first[min(first)][0]]
    return tuple(sorted(chosen))


def ranges_of(pieces: Iterable[Piece]) -> tuple[StreamRange, ...]:
    """Returns one contiguous range per stream. Each will be one segment."""
    ranges = []
    for stream_id, each in groupby(sorted(pieces), key=lambda p: p.item.stream_id):
        stretch = list(each)
        where = stretch[0].item.offsets.topic_partition
        ranges.append(StreamRange(stream_id, OffsetRange(where, stretch[0].begin, stretch[-1].end)))
    return tuple(ranges)


def _without(piece: Piece, over: Iterable[Taken]) -> list[Piece]:
    free, at = [], piece.begin
    for part in sorted(over, key=lambda t: t.begin):
        if part.begin > at:
            free.append(piece.between(at, part.begin))
        at = max(at, part.end)
    return [*free, piece.between(at, piece.end)] if at < piece.end else free


def _first_stretch(pieces: list[Piece]) -> list[Piece]:
    stretch = pieces[:1]
    for piece in pieces[1:]:
        if piece.begin != stretch[-1].end:
            break
        stretch.append(piece)
    return stretch


def _as_far_as(stretch: Sequence[Piece], share: int) -> list[Piece]:
    """Returns the stretch's first `share` offsets. Leaves out a segment that reaches further, as a whole."""
    end = stretch[0].begin + share
    taken: list[Piece] = []
    for piece in stretch:
        if piece.end <= end:
            taken.append(piece)
        else:
            if piece.owner is None and piece.begin < end:
                taken.append(piece.between(piece.begin, end))
            break
    return taken


def _whole_batches(pieces: Sequence[Piece], total: int) -> tuple[Piece, ...]:
    owners: dict[int | None, list[Piece]] = defaultdict(list)
    for piece in sorted(pieces):
        owners[piece.owner].append(piece)
    chosen: list[Piece] = []
    for each in owners.values():
        together = sorted([*chosen, *each])
        span = sum(piece.end - piece.begin for piece in together)
        if chosen and (span > total or not _is_one_range_each(together)):
            break
        chosen = together
    return tuple(chosen)


def _is_one_range_each(pieces: Sequence[Piece]) -> bool:
    """Returns True if every partition has one stream here, and every stream one contiguous range."""
    streams: dict[TopicPartition, set[int]] = defaultdict(set)
    for piece in pieces:
        streams[piece.item.offsets.topic_partition].add(piece.item.stream_id)
    gaps = any(a.item.stream_id == b.item.stream_id and a.end != b.begin for a, b in pairwise(pieces))
    return not gaps and all(len(found) == 1 for found in streams.values())
