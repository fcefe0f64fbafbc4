"""Names the record that a target refuses, by trials that are rolled back."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.adapters.postgres_errors import StatementRefused, best_effort, server_refusals
from lockstep.core.errors import RowsRefused
from lockstep.core.lake.iceberg import database_places
from lockstep.core.pipeline.formats import is_marked
from lockstep.core.states import Lane
from lockstep.engine.sinks.copy_binary import field_of_row
from lockstep.ledger.batch import attempts
from lockstep.steps.feed.announce_changes import open_changes
from lockstep.steps.windows.move import judge_batch
from lockstep.targets import publish, withdraw
from lockstep.targets.rows import range_rows, staged_rows
from lockstep.targets.table.refused import counted, first_refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from psycopg2.extensions import connection, cursor

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.staging import AttemptId
    from lockstep.targets.table.refused import RefusedRecord


@contextmanager
def refused_record_named(conn: connection, pipeline: Pipeline, attempt: AttemptId) -> Iterator[None]:
    """Adds partition and offset of the first refused record to the error, if a target refuses the block's rows.

    The error stays as it is when no staged record is refused alone or with those before it.
    """
    try:
        yield
    except RowsRefused as refused:
        found = None
        with best_effort():
            found, lane = _first_of_staged(conn, pipeline, attempt, refused.table)
        if found is None:
            raise
        raise with_record(refused, pipeline, found, lane) from None


def with_record(refused: RowsRefused, pipeline: Pipeline, record: RefusedRecord, lane: Lane) -> RowsRefused:
    """Returns the refusal with the record's place. In the live lane its next command skips the record."""
    topic = "" if isinstance(pipeline.topic, str) else f" --topic {record.topic}"
    skip = f"lockstep skip {pipeline.name}{topic} --to {record.partition}:{record.offset + 1} --reason ..."
    return RowsRefused(
        f"{refused.message}; the first such record is {record.shown}",
        next_command=skip if lane == Lane.LIVE else refused.next_command,
        values=refused.values,
        table=refused.table,
    )


@contextmanager
def copied_row_named(item: StreamRange, names: Sequence[str], piece: BinaryIO) -> Iterator[None]:
    """Adds the record's place to a refusal of one of the piece's rows, which have these columns."""
    try:
        with server_refusals():
            yield
    except StatementRefused as refused:
        if refused.copied_row is not None:
            offset = int.from_bytes(field_of_row(piece, refused.copied_row, names.index("_offset")))
            refused.place = f"{item.offsets.topic_partition} offset {offset}"
        raise


def first_of_range(
    cur: cursor, pipeline: Pipeline, attempt: AttemptId, lane: Lane, stream_id: int
) -> RefusedRecord | None:
    """Returns the first refused record of the rows that a task has copied of its range. The caller rolls back."""
    open_changes(cur, pipeline.name, pipeline.first, attempt.batch_id, stream_id)
    if lane == Lane.REPLAY:
        withdraw(cur, pipeline.first, attempt.batch_id, stream_id, keeps=is_marked(pipeline.format))
    rows = counted(cur, range_rows(attempt, stream_id, 0))
    return first_refused(cur, rows, partial(publish, cur, pipeline.first, event_time=pipeline.event_time))


def _first_of_staged(
    conn: connection, pipeline: Pipeline, attempt: AttemptId, table: str
) -> tuple[RefusedRecord | None, Lane]:
    """Publishes staged rows as the commit does, up to the refused target. Rolls everything back."""
    found = None
    with transaction(conn, COMMITTER) as cur:
        lane = attempts.lock_batch(cur, attempt.batch_id).lane
        attempts.require_newest(cur, attempt)
        judge_batch(cur, pipeline, attempt.batch_id)
        for place, target in database_places(pipeline.targets).items():
            open_changes(cur, pipeline.name, target, attempt.batch_id)
            if lane == Lane.REPLAY:
                withdraw(cur, target, attempt.batch_id, keeps=is_marked(pipeline.format))
            rows = counted(cur, staged_rows(attempt, 0, place))
            publishing = partial(publish, cur, target, event_time=pipeline.event_time)
            if target.table == table:
                found = first_refused(cur, rows, publishing)
                break
            publishing(rows)
        conn.rollback()
    return found, lane
