"""Reads the blocks of a coverage picture along time. A segment lasts from its first record's time to its last one's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from lockstep.ledger.picture import MOST_SEGMENTS, PARTS, PLACES, Block, with_batches
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger", "times")
Window = tuple[int, int]
LOOKS, GLANCES = 4, 24  # each look narrows the offsets of a stretch of time about twelve times


@dataclass(frozen=True, slots=True)
class Span:
    """The half-open stretch of time that a picture shows."""

    since: datetime
    until: datetime

    @property
    def step(self) -> timedelta:
        """Returns the time that one place of the picture stands for."""
        return max(timedelta(milliseconds=1), (self.until - self.since) / PLACES)

    def shows(self, since: datetime | None, until: datetime | None) -> bool:
        """Returns True if any part of a stretch is in the span. None means an open end."""
        return (since is None or since < self.until) and (until is None or until >= self.since)


@dataclass(frozen=True, slots=True)
class Timed:
    """A block of coverage with the times of its records. An unknown end is None."""

    block: Block
    since: datetime | None
    until: datetime | None


def extents(cur: cursor, streams: Sequence[int]) -> dict[int, Window]:
    """Returns, per stream, its first known offset and its position."""
    cur.execute(Q["extents"], {"streams": list(streams)})
    return {row.stream_id: (row.from_offset, row.until_offset) for row in every(cur)}


def whole(cur: cursor, windows: Mapping[int, Window]) -> Span | None:
    """Returns the span from the first record's time to the last one's, by sampled segments, or None without any."""
    rows = [row for own in _stamps(cur, windows, GLANCES).values() for row in own]
    first = min((row.min_timestamp for row in rows if row.min_timestamp), default=None)
    last = max((row.max_timestamp for row in rows if row.max_timestamp), default=None)
    return Span(first, last + timedelta(milliseconds=1)) if first and last else None


def within(cur: cursor, windows: Mapping[int, Window], span: Span) -> dict[int, Window]:
    """Returns, per stream, the offsets that a span of time may include.

    Where time goes forward, the windows may be too wide, but never too narrow.
    """
    for _ in range(LOOKS):
        found = {
            stream: _narrowed(rows, windows[stream], span) for stream, rows in _stamps(cur, windows, GLANCES).items()
        }
        if found == windows:
            break
        windows = found
    return dict(windows)


def blocks(cur: cursor, windows: Mapping[int, Window], span: Span) -> list[Timed]:
    """Returns the batches' blocks with their records' times by stream and offset, at most some hundred per stream."""
    cur.execute(Q["segments_with_stamps"], _columns(windows) | {"most": MOST_SEGMENTS})
    by_stream = {stream: list(rows) for stream, rows in groupby(every(cur), key=lambda row: row.stream_id)}
    crowded = {stream: windows[stream] for stream, rows in by_stream.items() if len(rows) > MOST_SEGMENTS}
    looked = _stamps(cur, crowded, PLACES) if crowded else {}
    found = [
        timed
        for stream, rows in by_stream.items()
        for timed in (_dense(looked[stream]) if stream in crowded else _exact(rows))
        if span.shows(timed.since, timed.until)
    ]
    known = with_batches(cur, [timed.block for timed in found])
    return _merged([Timed(block, t.since, t.until) for block, t in zip(known, found, strict=True)], span)


def around(cur: cursor, stretches: Sequence[Block], span: Span) -> list[Timed]:
    """Returns stretches without records, each between the times of its neighbours."""
    if not stretches:
        return []
    known = {
        "streams": [block.stream_id for block in stretches],
        "froms": [block.from_offset for block in stretches],
        "untils": [block.until_offset for block in stretches],
    }
    cur.execute(Q["times_around"], known)
    near = {(row.stream_id, row.from_offset): row for row in every(cur)}
    timed = [(block, near[block.stream_id, block.from_offset]) for block in stretches]
    return [Timed(block, row.since, row.until) for block, row in timed if span.shows(row.since, row.until)]


def rejects(cur: cursor, windows: Mapping[int, Window], span: Span) -> list[Any]:
    """Counts rejects by place in time, as rows `stream_id, place, rejects, first, at`."""
    asked = {"since": span.since, "until": span.until, "step": span.step.total_seconds()}
    cur.execute(Q["rejects_by_time"], _columns(windows) | asked)
    return every(cur)


def _stamps(cur: cursor, windows: Mapping[int, Window], places: int) -> dict[int, list[Any]]:
    cur.execute(Q["stamps"], _columns(windows) | {"places": places})
    return {stream: list(rows) for stream, rows in groupby(every(cur), key=lambda row: row.stream_id)}


def _narrowed(rows: Sequence[Any], window: Window, span: Span) -> Window:
    """Returns the window from one segment before the span to one segment after it."""
    reaching = [i for i, row in enumerate(rows) if row.max_timestamp and row.max_timestamp >= span.since]
    begun = [i for i, row in enumerate(rows) if row.min_timestamp and row.min_timestamp < span.until]
    first = max(0, (reaching[0] if reaching else len(rows) - 1) - 1)
    last = min(len(rows) - 1, (begun[-1] if begun else 0) + 1)
    if last < first:
        return window
    return (
        window[0] if first == 0 else rows[first].from_offset,
        window[1] if last == len(rows) - 1 else rows[last].until_offset,
    )


def _exact(rows: Sequence[Any]) -> list[Timed]:
    """Converts segments to blocks. One without records lies at the end of the segment before it.

    A segment that upkeep has merged begins there, too.
    """
    found, at = [], None
    for row in rows:
        since = row.min_timestamp or at
        at = row.max_timestamp or at
        found.append(Timed(Block(row.stream_id, row.from_offset, row.until_offset, "batch", row.batch_id), since, at))
    return found


def _dense(rows: Sequence[Any]) -> list[Timed]:
    """Converts sampled segments to dense blocks. Each stands for all up to the next one."""
    stamped = [row for row in rows if row.min_timestamp]
    found = [
        Timed(_look(row, behind.from_offset), row.min_timestamp, behind.min_timestamp)
        for row, behind in pairwise(stamped)
    ]
    last = stamped[-1:]
    return found + [Timed(_look(row, row.until_offset), row.min_timestamp, row.max_timestamp) for row in last]


def _look(row: Any, until_offset: int) -> Block:
    return Block(row.stream_id, row.from_offset, until_offset, "batch", row.batch_id, dense=True)


def _merged(found: Sequence[Timed], span: Span) -> list[Timed]:
    """Merges neighbouring samples of one lane into blocks no wider than a part of the span."""
    widest = (span.until - span.since) / PARTS
    merged: list[Timed] = []
    for timed in found:
        last = merged[-1] if merged else None
        if last and _together(last, timed) and last.since and timed.until and timed.until - last.since <= widest:
            joined = replace(timed.block, from_offset=last.block.from_offset)
            merged[-1] = Timed(joined, last.since, timed.until)
        else:
            merged.append(timed)
    return merged


def _together(last: Timed, timed: Timed) -> bool:
    before, block = last.block, timed.block
    return before.dense and block.dense and (before.stream_id, before.lane) == (block.stream_id, block.lane)


def _columns(windows: Mapping[int, Window]) -> dict[str, list[int]]:
    return {
        "streams": list(windows),
        "froms": [low for low, _ in windows.values()],
        "untils": [high for _, high in windows.values()],
    }
