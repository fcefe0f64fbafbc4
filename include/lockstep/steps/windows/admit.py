"""Admits late records: after a decision, a replay of their segments lets them count in their windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.states import Lane
from lockstep.ledger.changes import decisions, requests
from lockstep.ledger.windows.reading import admit_ranges, late_ranges, replay_over
from lockstep.steps.batch.one_log import require_one_log
from lockstep.steps.changes.decisions import deciding
from lockstep.steps.requests.edges import streams_of_log
from lockstep.steps.requests.plan_request import asked_for, mixes_partitions
from lockstep.steps.requests.requests import touched_segments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.offsets import Stream, StreamRange
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


def admit_late(
    conn: connection,
    broker: Broker,
    folder: PipelineFolder,
    person: Person,
    *,
    partition: int | None = None,
    begin: int | None = None,
    end: int | None = None,
) -> Request | None:
    """Records the decision, what it admits, and the request to replay it, in one transaction (E8).

    Returns None if nothing is late there. A judged range is admitted as a whole. An earlier admission goes on without a
    second decision, by its open request or by another one. Raises `Refusal` if no segment can be read again.
    """
    pipeline = folder.pipeline
    view = broker.view(pipeline.topic)
    require_one_log(conn, broker, pipeline, view)
    with transaction(conn, READER) as cur:
        streams = streams_of_log(cur, pipeline, view, None)
        meant = streams_of_log(cur, pipeline, view, partition)  # refuses a partition that is not there
    log_starts = {stream.stream_id: view.bounds[stream.partition].log_start for stream in streams}
    with deciding(conn, pipeline.name) as cur:
        tables = [target.table for target in pipeline.windows]
        late = late_ranges(cur, tables, [stream.stream_id for stream in meant], begin, end)
        found = admissible(cur, folder, streams, late, log_starts)
        if not found.windows:
            return None
        if not found.ranges and (known := replay_over(cur, pipeline.name, found.windows, log_starts)):
            return asked_for(cur, known, pipeline.name)
        if found.ranges:
            decide_admission(cur, pipeline.name, found.ranges, person)
        request_id = requests.insert_request(cur, pipeline.name, Lane.REPLAY, found.windows, person, preview=False)
        return replace(asked_for(cur, request_id, pipeline.name), goes_on=False)


def admissible(
    cur: cursor,
    folder: PipelineFolder,
    streams: Sequence[Stream],
    late: Mapping[StreamRange, bool],
    log_starts: Mapping[int, int],
) -> Admissible:
    """Returns what of these late ranges can be read again, as whole segments.

    The rest stays late. Raises `Refusal` if there are late ranges and none can be read again.
    """
    whole, readable, below = mixes_partitions(folder), [], None
    for item in late:
        its = touched_segments(cur, streams, [item], whole_batches=whole)
        unread = next((each for each in its if each.offsets.from_offset < log_starts[each.stream_id]), None)
        below = below or unread
        readable += [] if unread else [item]
    if below and not readable:
        raise Refusal(
            f"{below.offsets}: the late records' segment begins below the log's start {log_starts[below.stream_id]}, so it "
            "cannot be read again; the late rows are kept, and nothing was admitted",
            next_command=f"lockstep late {folder.pipeline.name} --json",
        )
    windows = touched_segments(cur, streams, readable, whole_batches=whole)
    return Admissible(tuple(item for item in readable if not late[item]), tuple(windows))


def decide_admission(cur: cursor, pipeline: str, ranges: Sequence[StreamRange], person: Person) -> None:
    """Records the decision that admits these judged ranges. The caller holds the pipeline's lock."""
    detail = {
        "ranges": [
            {"stream": item.stream_id, "from": item.offsets.from_offset, "until": item.offsets.until_offset}
            for item in ranges
        ]
    }
    admit_ranges(cur, ranges, decisions.record(cur, pipeline, ADMIT, person, detail))
