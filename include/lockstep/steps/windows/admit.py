"""Admits late records: after a decision, a replay of their segments lets them count in their windows."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.states import Lane
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.changes import decisions, requests
from lockstep.ledger.changes.history import insert_request_call
from lockstep.ledger.windows.reading import admit_ranges, admits, late_ranges, note_admits, replay_over
from lockstep.steps.batch.one_log import require_one_log
from lockstep.steps.changes.decisions import deciding
from lockstep.steps.requests.edges import streams_of_log
from lockstep.steps.requests.plan_request import asked_for, mixes_partitions
from lockstep.steps.requests.requests import refuse_closed_log, touched_segments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import Bounds, Stream, StreamRange
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.requests import Request

ADMIT = "admit-late"


@dataclass(frozen=True, slots=True)
class Admissible:
    """The judged ranges with late rows that no decision admits so far, and the segments to replay.

    Those of ranges that were admitted before, and whose replay has not ended, are among the segments.
    """

    ranges: tuple[StreamRange, ...]
    windows: tuple[StreamRange, ...]


@dataclass(frozen=True, slots=True)
class LateWanted:
    """The late records to admit: all of them, a topic's, a partition's, or those of its offsets [begin, end)."""

    topic: str | None = None
    partition: int | None = None
    begin: int | None = None
    end: int | None = None


def admit_late(
    conn: connection,
    broker: Broker,
    folder: PipelineFolder,
    person: Person,
    wanted: LateWanted | None = None,
) -> Request | None:
    """Records the decision, what it admits, and the request to replay it, in one transaction (E8).

    Returns None if nothing is late there. A judged range is admitted as a whole. An earlier admission goes on without a
    second decision, by its open request or by another one. Raises `Refusal` if no segment can be read again.
    """
    pipeline = folder.pipeline
    with _looked_up(conn, broker, folder, wanted or LateWanted()) as (cur, found, log_starts):
        if not found.windows:
            return None
        known = None if found.ranges else replay_over(cur, pipeline.name, found.windows, log_starts)
        if known is None:
            return _opened(cur, pipeline.name, found, person)
        if person.run:
            insert_request_call(cur, pipeline.name, person.run, known)
        return asked_for(cur, known, pipeline.name)


def preview_admission(
    conn: connection,
    broker: Broker,
    folder: PipelineFolder,
    person: Person,
    wanted: LateWanted | None = None,
) -> Request | None:
    """Opens a preview of the replay that would let late records count. Returns None if nothing is late.

    Nothing is decided: the preview judges as if it were.
    """
    with _looked_up(conn, broker, folder, wanted or LateWanted()) as (cur, found, _):
        return _opened(cur, folder.pipeline.name, found, person, preview=True) if found.windows else None


def open_shown_admission(
    conn: connection, pipeline: str, shown: Request, person: Person, *, preview: bool = False
) -> Request | None:
    """Decides what a preview has shown, and opens its replay, in one transaction. Or previews it once more.

    Returns None if nobody is left to admit anything of it. A plain replay of its offsets does then.
    """
    with deciding(conn, pipeline) as cur:
        ranges = admits(cur, shown.request_id)
        return _opened(cur, pipeline, Admissible(ranges, shown.windows), person, preview=preview) if ranges else None


@contextmanager
def _looked_up(
    conn: connection,
    broker: Broker,
    folder: PipelineFolder,
    wanted: LateWanted,
) -> Iterator[tuple[cursor, Admissible, dict[int, int]]]:
    """Finds, under the pipeline's lock, what of the late records can be read again. The block ends the transaction."""
    pipeline = folder.pipeline
    view = read_topics(broker, pipeline)
    require_one_log(conn, broker, pipeline, view)
    with transaction(conn, READER) as cur:
        streams = streams_of_log(cur, pipeline, view, None)
        meant = streams_of_log(
            cur, pipeline, view, wanted.partition, wanted.topic
        )  # refuses a partition that is not there
        view = with_archive(cur, pipeline, view)
    bounds = {stream.stream_id: view[stream.topic_partition] for stream in streams}
    log_starts = {stream: its.whole_from for stream, its in bounds.items()}
    with deciding(conn, pipeline.name) as cur:
        tables = [target.table for target in pipeline.windows]
        late = late_ranges(cur, tables, [stream.stream_id for stream in meant], wanted.begin, wanted.end)
        yield cur, admissible(cur, folder, streams, late, bounds), log_starts


def _opened(cur: cursor, pipeline: str, found: Admissible, person: Person, *, preview: bool = False) -> Request:
    """Opens the replay, behind a decision on what nobody admits so far. A preview notes it instead."""
    refuse_closed_log(cur, pipeline, found.windows)
    if found.ranges and not preview:
        decide_admission(cur, pipeline, found.ranges, person)
    request_id = requests.insert_request(cur, pipeline, Lane.REPLAY, found.windows, person, preview=preview)
    if preview:
        note_admits(cur, request_id, found.ranges)
    if person.run:
        insert_request_call(cur, pipeline, person.run, request_id)
    return replace(asked_for(cur, request_id, pipeline), goes_on=False)


def admissible(
    cur: cursor,
    folder: PipelineFolder,
    streams: Sequence[Stream],
    late: Mapping[StreamRange, bool],
    bounds: Mapping[int, Bounds],
) -> Admissible:
    """Returns what of these late ranges can be read again, as whole segments.

    The rest stays late. Raises `Refusal` if there are late ranges and none can be read again.
    """
    whole, readable, below = mixes_partitions(folder), [], None
    for item in late:
        its = touched_segments(cur, streams, [item], whole_batches=whole)
        unread = next((each for each in its if not _is_held(bounds[each.stream_id], each)), None)
        below = below or unread
        readable += [] if unread else [item]
    if below and not readable:
        raise Refusal(
            f"{below.offsets}: the late records' segment begins below the log's start "
            f"{bounds[below.stream_id].log_start}, so it cannot be read again; "
            "the late rows are kept, and nothing was admitted",
            next_command=f"lockstep late {folder.pipeline.name} --json",
        )
    windows = touched_segments(cur, streams, readable, whole_batches=whole)
    return Admissible(tuple(item for item in readable if not late[item]), tuple(windows))


def _is_held(bounds: Bounds, item: StreamRange) -> bool:
    return bounds.holds(item.offsets.from_offset, item.offsets.until_offset)


def decide_admission(cur: cursor, pipeline: str, ranges: Sequence[StreamRange], person: Person) -> None:
    """Records the decision that admits these judged ranges. The caller holds the pipeline's lock."""
    detail = {
        "ranges": [
            {"stream": item.stream_id, "from": item.offsets.from_offset, "until": item.offsets.until_offset}
            for item in ranges
        ]
    }
    admit_ranges(cur, ranges, decisions.record(cur, pipeline, ADMIT, person, detail))
