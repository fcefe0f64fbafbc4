"""Records a request for a fill or replay. Widens its bounds to stretches that can be replayed as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.planning.bounds import AtOffsets
from lockstep.core.states import Lane
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.batch.streams import closed_log, read_before
from lockstep.ledger.changes import requests
from lockstep.ledger.changes.history import insert_request_call
from lockstep.steps.batch.one_log import require_one_log
from lockstep.steps.changes.decisions import deciding
from lockstep.steps.requests.edges import edge, passed_stretches, streams_of_log, topics_meant
from lockstep.steps.requests.plan_request import asked_for, mixes_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import Bounds, LogView, Stream, TopicView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.bounds import Bound
    from lockstep.core.planning.requests import Request


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A person's wish for a fill or replay: a lane, its bounds, and perhaps one topic and one partition.

    A bound of None means no limit on that side.
    """

    lane: Lane
    begin: Bound | None
    end: Bound | None
    partition: int | None = None
    preview: bool = False
    topic: str | None = None


def open_request(
    conn: connection, broker: Broker, folder: PipelineFolder, wanted: NewRequest, person: Person, now: datetime
) -> Request | None:
    """Records the request, or finds the open one for the very same offsets.

    Raises `Refusal` when the bounds name offsets that do not exist. Also raises it when a replay would begin below the
    log's start.
    """
    pipeline = folder.pipeline
    seen = read_topics(broker, pipeline)
    require_one_log(conn, broker, pipeline, seen)
    with transaction(conn, READER) as cur:
        seen = with_archive(cur, pipeline, seen)
    offsets = isinstance(wanted.begin, AtOffsets) or isinstance(wanted.end, AtOffsets) or wanted.partition is not None
    windows: list[StreamRange] = []
    for view in topics_meant(conn, pipeline, seen, wanted.topic, by_offsets=offsets, at=wanted.begin):
        windows += _stretches(conn, broker, pipeline, view, wanted, now)
    with transaction(conn, READER) as cur:
        if wanted.lane == Lane.REPLAY:
            everywhere = streams_of_log(cur, pipeline, seen, None)
            windows = touched_segments(cur, everywhere, windows, whole_batches=mixes_partitions(folder))
            _refuse_below_log_start(pipeline, seen, windows)
        else:
            windows = _readable(windows, seen)
    return written_down(conn, pipeline, wanted.lane, windows, person, seen, preview=wanted.preview)


def _stretches(
    conn: connection, broker: Broker, pipeline: Pipeline, view: TopicView, wanted: NewRequest, now: datetime
) -> list[StreamRange]:
    """Returns the offsets of one topic within the bounds that its streams have passed."""
    is_fill = wanted.lane == Lane.FILL
    begin = {p: bounds.lowest if is_fill else bounds.whole_from for p, bounds in view.bounds.items()}
    end = {p: bounds.stable_end for p, bounds in view.bounds.items()}
    if wanted.begin is not None:
        begin = edge(conn, broker, pipeline, view, wanted.begin, now, is_end=False)
    if wanted.end is not None:
        end = edge(conn, broker, pipeline, view, wanted.end, now, is_end=True)
    _refuse_nothing_in_common(pipeline, view.topic, wanted, begin, end)
    with transaction(conn, READER) as cur:
        streams = streams_of_log(cur, pipeline, view, wanted.partition)
        return passed_stretches(streams, read_before(cur, streams), begin, end)


def go_on(conn: connection, pipeline: Pipeline, lane: Lane, request_id: int) -> Request:
    """Returns a request by its number. Refuses one of another lane, and a preview."""
    with transaction(conn, READER) as cur:
        asked = asked_for(cur, request_id, pipeline.name)
    if asked.lane != lane or asked.is_preview:
        raise Refusal(
            f"request {request_id} of {pipeline.name} is a {'preview' if asked.is_preview else asked.lane}",
            next_command=f"lockstep status {pipeline.name}",
        )
    return asked


def is_complete(conn: connection, request_id: int) -> bool:
    """Returns True if nothing of the request is left to do."""
    with transaction(conn, READER) as cur:
        found = requests.read_request(cur, request_id)
    return found is not None and found.is_closed


def written_down(
    conn: connection,
    pipeline: Pipeline,
    lane: Lane,
    windows: Iterable[StreamRange],
    person: Person,
    view: LogView,
    *,
    preview: bool,
) -> Request | None:
    """Opens the request for these stretches, or finds the open one for the very same.

    Returns None if there are no stretches, or if a fill finds nothing left to read. Refuses a preview of results that
    live in a store.
    """
    if preview:
        require_results_here(pipeline)
    found = tuple(windows)
    if not found:
        return None
    with deciding(conn, pipeline.name) as cur:
        refuse_closed_log(cur, pipeline.name, found)
        same = None if preview else requests.same_request(cur, pipeline.name, lane, found)
        request_id = same or requests.insert_request(cur, pipeline.name, lane, found, person, preview=preview)
        if person.run:
            insert_request_call(cur, pipeline.name, person.run, request_id)
        opened = replace(asked_for(cur, request_id, pipeline.name), goes_on=same is not None)
        if opened.goes_on or lane != Lane.FILL:
            return opened
        left = requests.free(
            cur, request_id, {item.stream_id: view.get(item.offsets.topic_partition) for item in found}
        )
        if not left:  # also where a replay, or the live lane, works on them now
            conn.rollback()
            return None
        return replace(opened, left=tuple(piece.item for piece in left))


def require_todays_logs(
    conn: connection, broker: Broker, pipeline: Pipeline, view: LogView, windows: Iterable[StreamRange]
) -> None:
    """Refuses stretches that were looked up earlier, and whose log is another one by now, or gone."""
    require_one_log(conn, broker, pipeline, view)
    with transaction(conn, READER) as cur:
        here = {stream.stream_id for stream in streams_of_log(cur, pipeline, view, None)}
    if gone := next((window for window in windows if window.stream_id not in here), None):
        _refuse_gone(pipeline.name, gone.offsets.topic_partition)


def refuse_closed_log(cur: cursor, name: str, windows: Sequence[StreamRange]) -> None:
    """Refuses stretches of a log that was closed since they were looked up. The caller holds the pipeline's lock."""
    if closed := closed_log(cur, [item.stream_id for item in windows]):
        _refuse_gone(name, TopicPartition(closed.topic, closed.partition))


def _refuse_gone(name: str, where: TopicPartition) -> NoReturn:
    raise Refusal(
        f"{where}: its log is not the one that was looked at, and cannot be read again; nothing was asked for",
        next_command=f"lockstep status {name}, then again",
    )


def require_results_here(pipeline: Pipeline) -> None:
    """Refuses a preview of results that live in a store."""
    if pipeline.store is not None:
        raise Refusal(
            f"{pipeline.name}: a preview compares the rows within one transaction of the ledger's database, and these "
            f"results live in {pipeline.store}: what a replay would change there cannot be shown beforehand",
            next_command=f"lockstep rejects {pipeline.name}, lockstep verify {pipeline.name}",
        )


def touched_segments(
    cur: cursor, streams: Iterable[Stream], windows: Iterable[StreamRange], *, whole_batches: bool
) -> list[StreamRange]:
    """Returns whole segments that the windows touch, adjacent ones joined, or all that their batches own (T10)."""
    partitions = {stream.stream_id: stream.topic_partition for stream in streams}
    touched, owners = set(), set()
    for window in windows:
        for row in requests.segments_within(cur, window):
            touched.add((window.stream_id, row.from_offset, row.until_offset))
            owners.add(row.batch_id)
    if whole_batches:
        touched = {(r.stream_id, r.from_offset, r.until_offset) for r in requests.segments_of(cur, owners)}
    found: list[StreamRange] = []
    for stream_id, begin, end in sorted(touched):
        if found and found[-1].stream_id == stream_id and found[-1].offsets.until_offset == begin:
            begin = found.pop().offsets.from_offset  # noqa: PLW2901 - the stretch goes on
        found.append(StreamRange(stream_id, OffsetRange(partitions[stream_id], begin, end)))
    return found


def _readable(windows: Iterable[StreamRange], view: LogView) -> list[StreamRange]:
    """Returns the offsets of its windows that a fill can still read, from the log or the archive."""
    return [
        StreamRange(window.stream_id, OffsetRange(window.offsets.topic_partition, low, high))
        for window in windows
        for low, high in _bounds(view, window).held_within(window.offsets.from_offset, window.offsets.until_offset)
    ]


def _refuse_nothing_in_common(
    pipeline: Pipeline, topic: str, wanted: NewRequest, begin: Mapping[int, int], end: Mapping[int, int]
) -> None:
    both = begin.keys() & end.keys()
    if not both or wanted.partition not in {None, *both}:
        raise Refusal(
            f"{pipeline.name}: --from, --until and --partition have no partition in common",
            next_command=f"lockstep status {pipeline.name}",
        )
    if isinstance(wanted.begin, AtOffsets) and isinstance(wanted.end, AtOffsets):
        empty = next((p for p in sorted(both) if begin[p] >= end[p]), None)
        if empty is not None:
            raise Refusal(f"{topic}-{empty}: [{begin[empty]}, {end[empty]}) holds no offset")


def _refuse_below_log_start(pipeline: Pipeline, view: LogView, windows: Iterable[StreamRange]) -> None:
    for window in windows:
        offsets, bounds = window.offsets, _bounds(view, window)
        log_start, gap = bounds.log_start, bounds.gap(offsets.from_offset)
        if gap and gap[0] < offsets.until_offset:
            lacks = f", and [{gap[0]}, {gap[1]}) is not archived" if bounds.archived else ""
            raise Refusal(
                f"{offsets}: its first segment begins below the log's start {log_start}{lacks}: a replay would delete rows "
                "that cannot be read again",
                next_command=f"lockstep batches {pipeline.name}, then replay from the first batch at or above {log_start}",
            )


def _bounds(view: LogView, item: StreamRange) -> Bounds:
    return view[item.offsets.topic_partition]
