"""Draws the coverage along time: when the records of each segment were made, and the end of the complete hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.core.offsets import TopicPartition
from lockstep.core.planning.bounds import MOST_OFFSET, moment_of
from lockstep.core.states import Lane
from lockstep.ledger.views import picture, times
from lockstep.ledger.views.times import Span, Timed
from lockstep.web.pages.asked import count_kinds
from lockstep.web.pictures import drawing
from lockstep.web.pictures.clock import Clock
from lockstep.web.zone import local, stamp, zone_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

    from lockstep.ledger.views.times import TimeWindow
    from lockstep.web.pages.asked import CoverageChoices, Streams

MILLISECONDS = 1000


def along_time(
    cur: cursor,
    streams: Streams,
    asked: CoverageChoices,
    through: datetime | None,
    since: Mapping[TopicPartition, datetime],
) -> dict[str, Any]:
    """Returns the picture's values, with each segment from its first record's time to its last one's.

    A segment without records is between its neighbours. A waiting stretch reaches from its first record's time until now.
    `since` has that time by partition, where the broker told it.
    """
    now, lagging = datetime.now(UTC), _lagging(streams)
    known = times.extents(cur, [row.stream_id for row in streams.rows])
    seen = times.glances(cur, known)
    span = _span(times.whole(seen), through, asked, now if lagging else None)
    windows = times.within(cur, known, seen, span)
    timed = times.blocks_by_time(cur, windows, span) + times.around(cur, _without_records(cur, windows, streams), span)
    dots = times.rejects_by_time(cur, windows, span)
    waits = {each.block.stream_id: each for each in times.around(cur, lagging, span)}
    claims = times.around(cur, _claims(cur, known), span)
    first = {row.stream_id: since.get(TopicPartition(row.topic, row.partition)) for row in streams.rows}
    planned = [_worked_on(each, timed, first.get(each.block.stream_id), now) for each in claims]
    clock, shades = Clock(span.since, span.until), drawing.Shades.of([each.block for each in timed])
    done, worked_on, dots_of = drawing.by_stream(timed), drawing.by_stream(planned), drawing.by_stream(dots)
    return {
        "lanes": [
            drawing.lane(number, row, streams.bounds.get(row.stream_id))
            | _waiting(waits.get(row.stream_id), first[row.stream_id], clock, now)
            | {
                "blocks": drawing.on_tracks([_placed(each, clock, shades) for each in done[row.stream_id]])
                + [_placed(each, clock, shades) for each in worked_on[row.stream_id]],
                "rejects": [
                    {"x": clock.at(dot.at), "count": dot.rejects, "first": dot.first} for dot in dots_of[row.stream_id]
                ],
            }
            for number, row in enumerate(streams.rows)
        ],
        "stretch": f"{stamp(span.since)} to {stamp(span.until)}, in {zone_name()}, by the time that records carry",
        "edges": (moment_in_address(span.since), moment_in_address(span.until)),
        "fields": (field_of(span.since), field_of(span.until)),
        "numbers": tuple(round(edge.timestamp() * MILLISECONDS) for edge in (span.since, span.until)),
        "ticks": clock.ticks(),
        "hours": clock.hours(),
        "through": {"at": through, "x": clock.at(through)} if through and span.since <= through <= span.until else None,
        "zooms": {
            name: (moment_in_address(low), moment_in_address(high)) for name, (low, high) in clock.zooms().items()
        },
        "told": count_kinds([each.block for each in timed + planned], dots),
    }


def moment_in_address(moment: datetime) -> str:
    """Formats a moment for an address."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def field_of(moment: datetime) -> str:
    """Formats a moment for a field, in the reader's zone."""
    return local(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _span(whole: Span | None, through: datetime | None, asked: CoverageChoices, waits_until: datetime | None) -> Span:
    """Returns the span that was asked for, or the whole. The whole reaches to now if anything waits."""
    if asked.last:
        now = datetime.now(UTC)
        return Span(now - timedelta(hours=asked.last), now)
    if whole is None:
        now = through or datetime.now(UTC)
        whole = Span(now - timedelta(hours=1), now)
    end = max(filter(None, (whole.until, through, waits_until)))
    since, until = _moment(asked.from_, whole.since), _moment(asked.until, end)
    if until <= since:
        raise HTTPException(
            400, f"{moment_in_address(since)} to {moment_in_address(until)}: a view ends after it begins"
        )
    return Span(since, until)


def _moment(text: str | None, otherwise: datetime) -> datetime:
    if not text:
        return otherwise
    try:
        return moment_of(text)
    except (ValueError, OverflowError):
        raise HTTPException(400, f"{text[:40]!r} is no ISO 8601 time") from None


def _without_records(cur: cursor, windows: dict[int, TimeWindow], streams: Streams) -> list[picture.Block]:
    if not windows:
        return []
    lowest, highest = min(low for low, _ in windows.values()), max(high for _, high in windows.values())
    view = picture.View(tuple(windows), lowest, max(highest, lowest + 1))
    logs = {stream: log for stream, log in streams.logs().items() if stream in windows}
    return picture.decided(cur, view) + picture.uncovered(cur, view, logs)


def _lagging(streams: Streams) -> list[picture.Block]:
    return [
        picture.Block(row.stream_id, row.position, own.stable_end, "waiting")
        for row in streams.rows
        if (own := streams.bounds.get(row.stream_id)) and own.stable_end > row.position
    ]


def _claims(cur: cursor, known: dict[int, TimeWindow]) -> list[picture.Block]:
    return picture.claimed(cur, picture.View(tuple(known), 0, MOST_OFFSET)) if known else []


def _waiting(found: Timed | None, first: datetime | None, clock: Clock, now: datetime) -> dict[str, Any]:
    """Returns what waits in a lane: from its first record's time, else from the last committed one's, until now."""
    since = first or (found.since if found else None)
    if found is None or (since and not since < clock.until) or now < clock.since:
        return {}
    return {"waiting": clock.box(since, max(now, since or now)), "waiting_since": since}


def _worked_on(each: Timed, timed: list[Timed], first: datetime | None, now: datetime) -> Timed:
    """Returns a planned block with the times of what it works on: what waits, or the segments that it replaces."""
    block = each.block
    if block.lane == Lane.LIVE:
        return Timed(block, first or each.since, now)
    over = [
        other
        for other in timed
        if other.block.stream_id == block.stream_id
        and other.block.from_offset < block.until_offset
        and block.from_offset < other.block.until_offset
    ]
    begins, ends = [other.since for other in over if other.since], [other.until for other in over if other.until]
    return Timed(block, min(begins, default=each.since), max(ends, default=each.until))


def _placed(each: Timed, clock: Clock, shades: drawing.Shades) -> drawing.Placed:
    since, until = each.since or clock.since, each.until or clock.until
    edges = (moment_in_address(since), moment_in_address(max(until, since + timedelta(milliseconds=1))))
    times_said = f", {stamp(since)} to {stamp(until)}" if each.since and each.until else ""
    return drawing.placed(each.block, clock.box(each.since, each.until), edges, shades, times_said)
