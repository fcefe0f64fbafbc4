"""Reads and writes requests for fills and replays: the work that is left of each, and their batches."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.planning.lanes import Piece, Taken
from lockstep.core.planning.requests import Rehearsal, Request
from lockstep.core.states import Expected, Lane
from lockstep.ledger.batch.plan import found_as_expected, insert_batch, range_arrays, stream_ranges
from lockstep.ledger.batch.streams import streams_of
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import Bounds, Stream, TopicView
    from lockstep.core.planning.decisions import Caller

Q = queries("lockstep.ledger.changes", "requests")
SEGMENTS_AT_ONCE = 1_000


def insert_request(
    cur: cursor, pipeline: str, lane: Lane, windows: Sequence[StreamRange], person: Person, *, preview: bool
) -> int:
    """Writes a request with its windows and returns its number."""
    facts = {"pipeline": pipeline, "lane": lane, "who": person.who, "why": person.why, "preview": preview}
    cur.execute(Q["insert_request"], facts)
    request_id: int = one(cur).request_id
    cur.execute(Q["insert_window"], {"request_id": request_id} | range_arrays(windows))
    return request_id


def same_request(cur: cursor, pipeline: str, lane: Lane, windows: Sequence[StreamRange]) -> int | None:
    """Returns the open request for exactly these offsets, or None. The same call continues it."""
    cur.execute(Q["same_request"], {"pipeline": pipeline, "lane": lane} | range_arrays(windows))
    row = maybe(cur)
    return row.request_id if row else None


def read_request(cur: cursor, request_id: int) -> Request | None:
    """Returns one request, or None if the ledger has no such request."""
    cur.execute(Q["request"], {"request_id": request_id})
    row = maybe(cur)
    if row is None:
        return None
    return Request(
        row.request_id,
        row.pipeline,
        Lane(row.lane),
        row.token,
        is_preview=row.preview,
        is_closed=row.closed,
        windows=windows(cur, request_id),
        who=row.who,
        why=row.why,
        rehearsal=Rehearsal(row.content_hash, row.difference) if row.content_hash else None,
    )


def open_requests(cur: cursor, pipeline: str) -> list[Any]:
    """Returns the requests that are not complete, as rows."""
    cur.execute(Q["open_requests"], {"pipeline": pipeline})
    return every(cur)


def windows(cur: cursor, request_id: int) -> tuple[StreamRange, ...]:
    """Returns the offset ranges of a request."""
    cur.execute(Q["windows"], {"request_id": request_id})
    return stream_ranges(every(cur))


def close_request(cur: cursor, request_id: int) -> None:
    """Closes a request that has nothing left, or that nobody wants any more."""
    cur.execute(Q["close_request"], {"request_id": request_id})


def close_requests_of(cur: cursor, *, streams: Sequence[int] = (), batches: Sequence[int] = ()) -> None:
    """Closes the requests of these streams, and of batches that a person abandons."""
    cur.execute(Q["close_requests_of"], {"streams": list(streams), "batches": list(batches)})


def log_streams(cur: cursor, pipeline: str, view: TopicView) -> tuple[Stream, ...]:
    """Returns every stream of today's log, by partition, the oldest first."""
    cur.execute(Q["log_streams"], {"pipeline": pipeline, "cluster_id": view.cluster_id, "topic_id": view.topic_id})
    return streams_of(every(cur))


def every_stream(cur: cursor, pipeline: str) -> tuple[Stream, ...]:
    """Returns every stream of a pipeline, of whatever log, the oldest of each partition first."""
    cur.execute(Q["every_stream"], {"pipeline": pipeline})
    return streams_of(every(cur))


def request_streams(cur: cursor, request_id: int) -> tuple[Stream, ...]:
    """Returns the streams of a request."""
    cur.execute(Q["streams_of"], {"request_id": request_id})
    return streams_of(every(cur))


def segments_within(cur: cursor, item: StreamRange) -> list[Any]:
    """Returns the segments of batches in a stretch, as rows (from_offset, until_offset, batch_id)."""
    (begin,), (end,), (stream,) = range_arrays([item])["froms"], range_arrays([item])["untils"], [item.stream_id]
    cur.execute(Q["segments_within"], {"stream_id": stream, "from_offset": begin, "until_offset": end})
    return every(cur)


def segments_of(cur: cursor, batches: Iterable[int]) -> list[Any]:
    """Returns the current segments of these batches, as rows (stream_id, from_offset, until_offset, batch_id)."""
    cur.execute(Q["segments_of"], {"batches": list(batches)})
    return every(cur)


def rejected_segments(cur: cursor, streams: Sequence[int], batch_id: int | None = None) -> list[Any]:
    """Returns the segments with rejects, all or one batch's, as rows (stream_id, offsets, batch_id, rejects)."""
    cur.execute(Q["rejected_segments"], {"streams": list(streams), "batch_id": batch_id})
    return every(cur)


def rejects_elsewhere(cur: cursor, pipeline: str, streams: Sequence[int], held: Mapping[str, Any]) -> list[Any]:
    """Returns rejects outside these streams, as rows (topic, partition, from_offset, until_offset, rejects).

    `held` limits them to a topic, a partition or a batch.
    """
    cur.execute(Q["rejects_elsewhere"], {"pipeline": pipeline, "streams": list(streams)} | dict(held))
    return every(cur)


def rejects_within(cur: cursor, windows: Sequence[StreamRange]) -> list[Any]:
    """Counts the current rejects of these stretches, as rows (reason, count), the most frequent first."""
    known = range_arrays(windows)
    cur.execute(Q["rejects_within"], known)
    return every(cur)


def due(cur: cursor, request_id: int) -> tuple[Piece, ...]:
    """Returns the next segments that a replay still has to redo."""
    cur.execute(Q["due_segments"], {"request_id": request_id, "most": SEGMENTS_AT_ONCE})
    return tuple(_piece(row, row.from_offset, row.until_offset, Expected.BATCH, row.batch_id) for row in every(cur))


def due_whole(cur: cursor, request_id: int) -> tuple[Piece, ...]:
    """Returns the next segments that a replay still has to redo, without owners that are cut off.

    An owner with a segment behind the last ones waits for the next plan.
    """
    most = SEGMENTS_AT_ONCE
    while True:
        cur.execute(Q["due_segments"], {"request_id": request_id, "most": most})
        rows = every(cur)
        by_stream = {stream: list(each) for stream, each in groupby(rows, key=lambda row: row.stream_id)}
        cut = {stream: found[-1].from_offset for stream, found in by_stream.items() if len(found) == most}
        known = {"streams": list(cut), "lasts": list(cut.values()), "owners": list({row.batch_id for row in rows})}
        cur.execute(Q["owners_behind"], known | {"request_id": request_id})
        behind = {row.batch_id for row in every(cur)}
        whole = [row for row in rows if row.batch_id not in behind]
        if whole or not rows:
            return tuple(_piece(row, row.from_offset, row.until_offset, Expected.BATCH, row.batch_id) for row in whole)
        most *= 2  # every owner reaches further: there is no progress without looking further, too


def free(cur: cursor, request_id: int, bounds: Mapping[int, Bounds | None]) -> tuple[Piece, ...]:
    """Returns the pieces that a fill still has to read, from the log or the archive. `bounds` is by stream.

    Skipped offsets and uncovered ones are pieces of their own.
    """
    held = {stream: its.held_ranges for stream, its in bounds.items() if its is not None}
    known = {"streams": list(held), "held": list(held.values())}
    cur.execute(Q["free_offsets"], {"request_id": request_id} | known)
    rows = every(cur)
    cur.execute(Q["skipped_within"], {"request_id": request_id})
    skipped = every(cur)
    pieces = []
    for row in rows:
        at = row.from_offset
        for skip in (s for s in skipped if s.stream_id == row.stream_id):
            begin, end = max(skip.from_offset, at), min(skip.until_offset, row.until_offset)
            if begin < end:
                pieces += [_piece(row, at, begin, Expected.NOTHING)] if at < begin else []
                pieces.append(_piece(row, begin, end, Expected.SKIPPED))
                at = end
        pieces += [_piece(row, at, row.until_offset, Expected.NOTHING)] if at < row.until_offset else []
    return tuple(pieces)


def taken_offsets(cur: cursor, request_id: int) -> list[Taken]:
    """Returns the offsets of a request that unfinished batches claim, and those that a preview has finished."""
    cur.execute(Q["claims_within"], {"request_id": request_id})
    claims = [Taken(row.stream_id, row.from_offset, row.until_offset, row.batch_id) for row in every(cur)]
    cur.execute(Q["previewed"], {"request_id": request_id})
    return claims + [Taken(row.stream_id, row.from_offset, row.until_offset, None) for row in every(cur)]


def given_up(cur: cursor, request_id: int) -> tuple[int, str | None]:
    """Counts the request's batches that were abandoned automatically, and returns the last reason."""
    cur.execute(Q["given_up"], {"request_id": request_id})
    row = one(cur)
    return row.times, row.error


def unfinished_of_request(cur: cursor, request_id: int) -> list[int]:
    """Returns the planned batches of a request that are not closed."""
    cur.execute(Q["unfinished_of"], {"request_id": request_id})
    return [row.batch_id for row in every(cur)]


def abandoned_previews(cur: cursor) -> list[Any]:
    """Returns the open previews without a holder, as rows (request_id, batch_id or None)."""
    cur.execute(Q["abandoned_previews"])
    return every(cur)


def insert_request_batch(
    cur: cursor, asked: Request, caller: Caller, ranges: Sequence[StreamRange], pieces: Sequence[Piece]
) -> int | None:
    """Writes a fill's or replay's batch and the coverage it replaces. Returns None if that has changed (T4)."""
    batch_id = insert_batch(cur, asked.pipeline, caller, ranges, asked.lane, asked.request_id)
    expected = {"expects": [p.expects for p in pieces], "owners": [p.owner for p in pieces]}
    cur.execute(Q["claim_pieces"], {"batch_id": batch_id} | expected | range_arrays([p.item for p in pieces]))
    return batch_id if found_as_expected(cur, batch_id) else None


def boundary(cur: cursor, stream_id: int, at: datetime) -> int | None:
    """Returns the offset in this stream's log that a time was resolved to before, or None."""
    cur.execute(Q["boundary"], {"stream_id": stream_id, "at": at})
    row = maybe(cur)
    return row.offset if row else None


def ranges_of_batches(cur: cursor, pipeline: str, batches: Iterable[int]) -> list[Any]:
    """Returns the planned ranges of these batches of a pipeline."""
    cur.execute(Q["ranges_of_batches"], {"pipeline": pipeline, "batches": list(batches)})
    return every(cur)


def _piece(row: Any, begin: int, end: int, expects: Expected, owner: int | None = None) -> Piece:
    offsets = OffsetRange(TopicPartition(row.topic, row.partition), begin, end)
    return Piece(StreamRange(row.stream_id, offsets), expects, owner)
