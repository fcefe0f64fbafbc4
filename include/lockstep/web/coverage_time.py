"""Draws the coverage along time: when the records of each segment were made, and the end of the complete hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.core.bounds import moment_of
from lockstep.ledger import picture, times
from lockstep.ledger.times import Span
from lockstep.web import drawing
from lockstep.web.asked import told
from lockstep.web.clock import Clock
from lockstep.web.place import ledger

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.ledger.times import Timed, Window
    from lockstep.web.asked import Asked, Streams

MILLISECONDS = 1000


def along_time(streams: Streams, asked: Asked, through: datetime | None) -> dict[str, Any]:
    """Returns the picture's values, with each segment from its first record's time to its last one's.

    A segment without records is between its neighbours.
    """
    with ledger() as cur:
        known = times.extents(cur, [row.stream_id for row in streams.rows])
        span = _span(cur, known, through, asked)
        windows = times.within(cur, known, span)
        timed = times.blocks(cur, windows, span) + times.around(cur, _without_records(cur, windows, streams), span)
        dots = times.rejects(cur, windows, span)
    clock, shades = Clock(span.since, span.until), drawing.Shades.of([each.block for each in timed])
    return {
        "lanes": [
            drawing.lane(number, row, streams.bounds.get(row.stream_id))
            | {
                "blocks": [_placed(each, clock, shades) for each in timed if each.block.stream_id == row.stream_id],
                "rejects": [
                    {"x": clock.at(dot.at), "count": dot.rejects, "first": dot.first}
                    for dot in dots
                    if dot.stream_id == row.stream_id
                ],
            }
            for number, row in enumerate(streams.rows)
        ],
        "stretch": f"{written(span.since)} to {written(span.until)}, in UTC, by the time that records carry",
        "edges": (written(span.since), written(span.until)),
        "numbers": tuple(round(edge.timestamp() * MILLISECONDS) for edge in (span.since, span.until)),
        "ticks": clock.ticks(),
        "hours": clock.hours(),
        "through": {"at": through, "x": clock.at(through)} if through and span.since <= through <= span.until else None,
        "zooms": {name: (written(low), written(high)) for name, (low, high) in clock.zooms().items()},
        "told": told([each.block for each in timed], dots),
    }


def written(moment: datetime) -> str:
    """Formats a moment for an address and its field."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _span(cur: cursor, known: dict[int, Window], through: datetime | None, asked: Asked) -> Span:
    whole = None if asked.from_ and asked.until else times.whole(cur, known)
    if whole is None:
        now = through or datetime.now(UTC)
        whole = Span(now - timedelta(hours=1), now)
    end = max(whole.until, through) if through else whole.until
    since, until = _moment(asked.from_, whole.since), _moment(asked.until, end)
    if until <= since:
        raise HTTPException(422, f"{written(since)} to {written(until)}: a view ends after it begins")
    return Span(since, until)


def _moment(text: str | None, otherwise: datetime) -> datetime:
    if not text:
        return otherwise
    try:
        return moment_of(text)
    except (ValueError, OverflowError):
        raise HTTPException(422, f"{text[:40]!r} is no ISO 8601 time") from None


def _without_records(cur: cursor, windows: dict[int, Window], streams: Streams) -> list[picture.Block]:
    if not windows:
        return []
    lowest, highest = min(low for low, _ in windows.values()), max(high for _, high in windows.values())
    view = picture.View(tuple(windows), lowest, max(highest, lowest + 1))
    logs = {stream: log for stream, log in streams.logs().items() if stream in windows}
    return picture.decided(cur, view) + picture.uncovered(cur, view, logs)


def _placed(each: Timed, clock: Clock, shades: drawing.Shades) -> dict[str, Any]:
    since, until = each.since or clock.since, each.until or clock.until
    edges = (written(since), written(max(until, since + timedelta(milliseconds=1))))
    times_said = f", {edges[0]} to {written(until)}" if each.since and each.until else ""
    return drawing.placed(each.block, clock.box(each.since, each.until), edges, shades, times_said)
