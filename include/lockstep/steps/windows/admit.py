"""Admits late records: after a decision, a replay of their segments lets them count in their windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.states import Lane
from lockstep.ledger.changes import decisions, requests
from lockstep.ledger.windows.reading import admit_ranges, late_ranges
from lockstep.steps.batch.one_log import require_one_log
from lockstep.steps.changes.decisions import deciding
from lockstep.steps.requests.edges import streams_of_log
from lockstep.steps.requests.plan_request import asked_for, mixes_partitions
from lockstep.steps.requests.requests import touched_segments

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.requests import Request

ADMIT = "admit-late"


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

    Returns None if nothing is late there. A judged range is admitted as a whole. Raises `Refusal` for segments that begin
    below the log's start. Their late rows stay.
    """
    pipeline = folder.pipeline
    view = broker.view(pipeline.topic)
    require_one_log(conn, broker, pipeline, view)
    with transaction(conn, READER) as cur:
        streams = streams_of_log(cur, pipeline, view, None)
        meant = streams_of_log(cur, pipeline, view, partition)  # refuses a partition that is not there
    with deciding(conn, pipeline.name) as cur:
        tables = [target.table for target in pipeline.windows]
        ranges = late_ranges(cur, tables, [stream.stream_id for stream in meant], begin, end)
        if not ranges:
            return None
        windows = touched_segments(cur, streams, ranges, whole_batches=mixes_partitions(folder))
        for item in windows:
            where, log_start = item.offsets, view.bounds[item.offsets.topic_partition.partition].log_start
            if where.from_offset < log_start:
                raise Refusal(
                    f"{where}: the late records' segment begins below the log's start {log_start}, so it cannot be read again; "
                    "the late rows are kept, and nothing was admitted",
                    next_command=f"lockstep late {pipeline.name} --json",
                )
        detail = {
            "ranges": [
                {"stream": item.stream_id, "from": item.offsets.from_offset, "until": item.offsets.until_offset}
                for item in ranges
            ]
        }
        decision = decisions.record(cur, pipeline.name, ADMIT, person, detail)
        admit_ranges(cur, ranges, decision)
        request_id = requests.insert_request(cur, pipeline.name, Lane.REPLAY, windows, person, preview=False)
        return replace(asked_for(cur, request_id, pipeline.name), goes_on=False)
