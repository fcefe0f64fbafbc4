"""Announces a commit, and drops everything that is no longer needed. A failure here undoes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, READER, transaction
from lockstep.adapters.postgres_errors import best_effort
from lockstep.core.offsets import TopicPartition
from lockstep.core.pipeline.names import group_of
from lockstep.core.states import BatchState, Lane
from lockstep.faults import reach
from lockstep.ledger.batch import commit as ledger
from lockstep.steps.batch.seal import seal

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context

ANNOUNCE_LOCK_SECONDS = 0.2


def announce(at: Context, pipeline: Pipeline, attempt: AttemptId) -> None:
    """Seals the chain, shows the positions as a consumer group's and drops the staged rows.

    Best effort: if the seal or the offsets fail here, the next batch's announcement makes up for it.
    """
    reach("announce.before")
    with best_effort():
        seal(at.conn, pipeline.name)
    with best_effort():
        with transaction(at.conn, READER) as cur:
            ranges = ledger.committed_ranges(cur, attempt.batch_id)
        positions = {
            TopicPartition(row.topic, row.partition): row.until_offset
            for row in ranges
            if row.lane == Lane.LIVE and row.state == BatchState.COMMITTED
        }
        if positions:
            at.broker.mirror(group_of(pipeline.name), positions)
    drop_staging(at, attempt)


def drop_staging(at: Context, attempt: AttemptId) -> None:
    """Drops the attempt's staging tables. `reap` drops a table that another session still holds."""
    with best_effort(), transaction(at.conn, COMMITTER, lock_seconds=ANNOUNCE_LOCK_SECONDS) as cur:
        ledger.wait_for_no_standby(cur)
        for table in ledger.staging_of(cur, attempt):
            ledger.drop_staging_table(cur, table)
