"""Reads the blocks of a coverage picture along time. A segment lasts from its first record's time to its last one's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every
from lockstep.ledger.views.picture import PLACES, PLACES_PER_PICTURE, Block, block_of, most_segments, places

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.views", "times")
TimeWindow = tuple[int, int]
Glances = dict[int, list[Any]]
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

    @property
    def stream_id(self) -> int:
        """Returns the stream of its block."""
        return self.block.stream_id


def extents(cur: cursor, streams: Sequence[int]) -> dict[int, TimeWindow]:
    """Returns, per stream, its first known offset and its position."""
    cur.execute(Q["extents"], {"streams": list(streams)})
    return {row.stream_id: (row.from_offset, row.until_offset) for row in every(cur)}


def glances(cur: cursor, windows: Mapping[int, TimeWindow]) -> Glances:
    """Returns a few segments of each stream with their records' times, spread over its window."""
    cur.execute(Q["stamps"], _columns(windows) | {"places": GLANCES})
    return {stream: list(rows) for stream, rows in groupby(every(cur), key=lambda row: row.stream_id)}


def whole(seen: Glances) -> Span | None:
    """Returns the span from the first record's time to the last one's, by sampled segments, or None without any."""
    rows = [row for own in seen.values() for row in own]
    first = min((row.min_timestamp for row in rows if row.min_timestamp), default=None)
    last = max((row.max_timestamp for row in rows if row.max_timestamp), default=None)
    return Span(first, last + timedelta(milliseconds=1)) if first and last else None


def within(cur: cursor, windows: Mapping[int, TimeWindow], seen: Glances, span: Span) -> dict[int, TimeWindow]:
    """Returns, per stream, the offsets that a span of time may include. `seen` are the glances at these windows.

    If time goes forward, the windows may be too wide, but never too narrow.
    """
    for look in range(LOOKS):
        found = {stream: _narrowed(rows, windows[stream], span) for stream, rows in seen.items()}
        narrower = any(windows[stream] != window for stream, window in found.items())
        windows = found
        if not narrower or look == LOOKS - 1:
            break
        seen = glances(cur, windows)
    return dict(windows)


def blocks_by_time(cur: cursor, windows: Mapping[int, TimeWindow], span: Span) -> list[Timed]:
    """Returns the batches' blocks with their records' times, each stream's by offset, at most some hundred per stream."""
    lanes = len(windows)
    cur.execute(Q["crowded_streams"], _columns(windows) | {"most": most_segments(lanes)})
    crowded = {row.stream_id: windows[row.stream_id] for row in every(cur)}
    cur.execute(Q["segments_with_stamps"], _columns({s: own for s, own in windows.items() if s not in crowded}))
    exact = [timed for _, rows in groupby(every(cur), key=lambda row: row.stream_id) for timed in _exact(rows)]
    shown = [timed for timed in exact if span.shows(timed.since, timed.until)]
    return shown + (_in_parts(cur, crowded, places(lanes), span) if crowded else [])


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


def rejects_by_time(cur: cursor, windows: Mapping[int, TimeWindow], span: Span) -> list[Any]:
    """Counts rejects by place in time, as rows `stream_id, place, rejects, first, at`."""
    asked = {"since": span.since, "until": span.until, "step": span.step.total_seconds()}
    cur.execute(Q["rejects_by_time"], _columns(windows) | asked)
    return every(cur)


def _narrowed(rows: Sequence[Any], window: TimeWindow, span: Span) -> TimeWindow:
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


def _exact(rows: Iterable[Any]) -> list[Timed]:
    """Converts segments to blocks. One without records lies at the end of the segment before it.

    A segment that upkeep has merged begins there, too.
    """
    found, at = [], None
    for row in rows:
        since = row.min_timestamp or at
        at = row.max_timestamp or at
        found.append(Timed(block_of(row), since, at))
    return found


def _in_parts(cur: cursor, windows: Mapping[int, TimeWindow], looks: int, span: Span) -> list[Timed]:
    """Returns dense blocks of one lane each that begin in one part of the span."""
    part = (span.until - span.since).total_seconds() / PLACES_PER_PICTURE
    asked = {"places": looks, "since": span.since, "until": span.until, "part": part}
    cur.execute(Q["drawn_in_parts"], _columns(windows) | asked)
    return [Timed(block_of(row, dense=True), row.since, row.until) for row in every(cur)]


def _columns(windows: Mapping[int, TimeWindow]) -> dict[str, list[int]]:
    return {
        "streams": list(windows),
        "froms": [low for low, _ in windows.values()],
        "untils": [high for _, high in windows.values()],
    }
