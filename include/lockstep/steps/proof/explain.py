"""Reads covered ranges again with two readers, and explains the offsets without a record."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Unreachable
from lockstep.core.offsets import OffsetRange, StreamRange
from lockstep.core.pipeline.definition import Append
from lockstep.core.planning.bounds import AtOffsets
from lockstep.core.proof.gaps import Kind, SeenOffsets, join_stretches, tell_apart
from lockstep.ledger.proof import verify as ledger
from lockstep.steps.batch.same_log import require_still_same
from lockstep.steps.inspect.archived_records import archived_messages, read_held
from lockstep.steps.requests.edges import edge, streams_of_log, topics_meant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.offsets import Stream, TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.planning.bounds import Bound
    from lockstep.core.proof.gaps import Stretch
    from lockstep.core.proof.verification import Segment
    from lockstep.ledger.views.reading import Document

OFFSETS_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class Within:
    """The part of the covered offsets to look at. A bound of None means no limit on that side."""

    begin: Bound | None = None
    end: Bound | None = None
    partition: int | None = None
    topic: str | None = None


class _Piece(NamedTuple):
    """A part of one segment, small enough for one read."""

    stream: Stream
    segment: Segment
    from_offset: int
    until_offset: int


def explain(
    conn: connection,
    broker: Broker,
    pipeline: Pipeline,
    within: Within,
    now: datetime,
    tell: Callable[[str], None] = lambda _: None,
) -> Document:
    """Returns the gaps in the covered offsets of today's log, by partition, and the number of offsets of each kind.

    Below log start it reads what is archived. A full batch was delivered a record at every offset of its range. It left
    no gap, unless the log is compacted, and is not read again.
    """
    seen = read_held(conn, broker, pipeline)
    offsets = isinstance(within.begin, AtOffsets) or isinstance(within.end, AtOffsets) or within.partition is not None
    views = topics_meant(conn, pipeline, seen, within.topic, by_offsets=offsets, at=within.begin)
    told = [_of_topic(conn, broker, pipeline, view, within, now, tell) for view in views]
    counts: Counter[str] = Counter()
    for _, gaps in told:
        for gap in gaps:
            counts[gap["kind"]] += gap["count"]
    return {
        "offsets": sum(offsets for offsets, _ in told),
        "counts": {kind: counts[kind] for kind in Kind if kind is not Kind.RECORD},
        "gaps": [gap for _, gaps in told for gap in gaps],
    }


def _of_topic(
    conn: connection,
    broker: Broker,
    pipeline: Pipeline,
    view: TopicView,
    within: Within,
    now: datetime,
    tell: Callable[[str], None],
) -> tuple[int, list[Document]]:
    """Returns how many offsets of a topic were looked at, and the gaps among them."""
    begin = edge(conn, broker, pipeline, view, within.begin, now, is_end=False) if within.begin else None
    end = edge(conn, broker, pipeline, view, within.end, now, is_end=True) if within.end else None
    with transaction(conn, READER) as cur:
        streams = streams_of_log(cur, pipeline, view, within.partition)
        covered = [
            (stream, segment) for stream in streams for segment in ledger.committed_segments(cur, stream.stream_id)
        ]
    found: dict[int, list[Stretch]] = {stream.partition: [] for stream in streams}
    compacts = broker.compacts(view.topic)
    looked_at = 0
    for piece in _pieces(covered, begin, end):
        tell(f"{piece.stream.topic_partition}: telling gaps apart from offset {piece.from_offset}")
        looked_at += piece.until_offset - piece.from_offset
        found[piece.stream.partition] += _look(
            conn, broker, pipeline, piece, view[piece.stream.topic_partition].archived, compacts=compacts
        )
    require_still_same(broker, view, [view.topic] if looked_at else [], f"lockstep holes {pipeline.name} --explain")
    return looked_at, [
        {
            "topic": view.topic,
            "partition": partition,
            "from_offset": gap.from_offset,
            "until_offset": gap.until_offset,
            "kind": gap.kind,
            "count": gap.count,
        }
        for partition in sorted(found)
        for gap in _gaps(found[partition])
    ]


def _pieces(
    covered: Iterable[tuple[Stream, Segment]], begin: Mapping[int, int] | None, end: Mapping[int, int] | None
) -> Iterator[_Piece]:
    for stream, segment in covered:
        p = stream.partition
        if any(bound is not None and p not in bound for bound in (begin, end)):
            continue
        low = max(segment.from_offset, begin[p] if begin else 0)
        high = min(segment.until_offset, end[p] if end else segment.until_offset)
        for at in range(low, high, OFFSETS_AT_ONCE):
            yield _Piece(stream, segment, at, min(at + OFFSETS_AT_ONCE, high))


def _look(
    conn: connection,
    broker: Broker,
    pipeline: Pipeline,
    piece: _Piece,
    archived: tuple[tuple[int, int], ...],
    *,
    compacts: bool,
) -> list[Stretch]:
    """Reads a piece. Reads it again if the log's start passes its beginning meanwhile."""
    low, high, where = piece.from_offset, piece.until_offset, piece.stream.topic_partition
    full = piece.segment.delivered == piece.segment.until_offset - piece.segment.from_offset
    log_start = -1
    while True:
        before, log_start = log_start, broker.view(where.topic)[where].log_start
        if full and not compacts:
            seen = SeenOffsets(log_start, range(low, high), (), archived=archived)
            break
        try:
            begin = max(low, log_start)
            committed = _offsets(broker, piece, begin, committed=True)
            uncommitted = _offsets(broker, piece, begin, committed=False)
            seen = SeenOffsets(log_start, committed, uncommitted, (), compacts, archived)
        except Unreachable:
            if log_start in {before, 0}:
                raise
            continue
        if broker.view(where.topic)[where].log_start <= begin:
            break
    if archived and low < seen.log_start and (compacts or not full):
        in_files = _archived(conn, broker, pipeline, piece, seen)
        seen = replace(seen, committed=in_files.union(each for each in range(low, high) if each in seen.committed))
    if compacts:
        once = range(low, high) if full else _accounted(conn, pipeline, piece)
        seen = replace(seen, once=once)
    return tell_apart(low, high, seen)


def _offsets(broker: Broker, piece: _Piece, begin: int, *, committed: bool) -> set[int]:
    where = piece.stream.topic_partition
    found = broker.records(where.topic, where.partition, begin, piece.until_offset, committed=committed)
    return {message.offset() for message in found}


def _archived(conn: connection, broker: Broker, pipeline: Pipeline, piece: _Piece, seen: SeenOffsets) -> set[int]:
    """Returns the offsets of the records below log start that files hold."""
    found: set[int] = set()
    for begin, end in seen.archived:
        low, high = max(begin, piece.from_offset), min(end, piece.until_offset, seen.log_start)
        if low < high:
            item = StreamRange(piece.stream.stream_id, OffsetRange(piece.stream.topic_partition, low, high))
            with transaction(conn, READER) as cur:
                found |= {message.offset() for message in archived_messages(cur, broker, pipeline, item)}
    return found


def _accounted(conn: connection, pipeline: Pipeline, piece: _Piece) -> set[int]:
    """Returns the offsets at which a row or a reject shows that there was a record.

    Does not query a keyed target, whose rows have no such order, or another store.
    """
    found: set[int] = set()
    for one in pipeline.each() if pipeline.store is None else ():
        if isinstance(one.first, Append):
            with transaction(conn, READER) as cur:
                stretch = (piece.stream.stream_id, piece.from_offset, piece.until_offset)
                found |= ledger.accounted_between(cur, one, *stretch)
    return found


def _gaps(stretches: Iterable[Stretch]) -> list[Stretch]:
    return [stretch for stretch in join_stretches(stretches) if stretch.kind is not Kind.RECORD]
