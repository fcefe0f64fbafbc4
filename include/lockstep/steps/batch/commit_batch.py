"""Commits a batch in the one transaction that is the guarantee: its results and its offsets, or neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.core.states import BatchState, Lane
from lockstep.faults import reach
from lockstep.ledger.batch import attempts, hidden
from lockstep.ledger.batch import commit as ledger
from lockstep.ledger.batch.same_definition import require_promoted, require_same_definition
from lockstep.ledger.lake.of_tasks import require_in_lake
from lockstep.ledger.staging import contents
from lockstep.steps.feed.announce_changes import number_changes
from lockstep.steps.windows.move import move_event_time
from lockstep.targets.proof.published import published_digests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from psycopg2.extensions import connection, cursor

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import AttemptId

    Effect = Mapping[str, Any]
    Publish = Callable[[cursor, Pipeline, AttemptId, Lane, int], Effect]

COMMIT_LOCK_SECONDS = 60
COMMIT_TRIES = 5


def commit_batch(conn: connection, folder: PipelineFolder, attempt: AttemptId, publish: Publish) -> None:
    """Commits one attempt. Does nothing if it has committed its batch before.

    `publish` takes cursor, pipeline, attempt, lane and number of rows, and returns what the targets did.
    """
    with transaction(conn, COMMITTER, lock_seconds=COMMIT_LOCK_SECONDS) as cur:
        # Lock: whatever else decides about this batch waits here until the COMMIT.
        batch = attempts.lock_batch(cur, attempt.batch_id)
        if batch.state == BatchState.COMMITTED and ledger.committed_by(cur, attempt.batch_id) == attempt:
            return  # the COMMIT of an earlier try arrived, and only its acknowledgement was lost

        # Fence: the batch is planned, this attempt is its newest and validated, and its definition is this folder's.
        require_fence(cur, folder, attempt)
        require_promoted(cur, attempt, folder)

        if batch.lane == Lane.LIVE:
            # No gap: every position stands where this batch begins, and stays locked there.
            ledger.require_positions(cur, attempt)
        else:
            # No overlap: exactly the coverage that was planned to be replaced makes room.
            ledger.give_way(cur, attempt)

        # Results: the rows that were staged and validated, and no others.
        effect = _move_results(cur, folder.pipeline, attempt, batch.lane, publish)

        # Offsets: commit rows, coverage, positions by compare-and-set, and event time behind them.
        _move_offsets(cur, folder, attempt, batch.lane, effect)

        # Feeds: changes are numbered last of all, so that the order of the numbers is that of the commits.
        number_changes(cur, folder.pipeline, batch.lane)
    # COMMIT: the ledger's constraints have checked all of this once more.


def require_fence(cur: cursor, folder: PipelineFolder, attempt: AttemptId) -> None:
    """Raises a refusal unless this attempt may commit, under the batch's lock and this folder's definition."""
    attempts.require_newest(cur, attempt)
    reach("commit.locked")
    require_same_definition(cur, attempt, folder)
    ledger.require_validated(cur, attempt)
    reach("commit.fence_ok")


def _move_results(cur: cursor, pipeline: Pipeline, attempt: AttemptId, lane: Lane, publish: Publish) -> Effect:
    """Publishes the rows, if they are those that were validated by count and by digest. Keeps their digests."""
    landed = hidden.require_landed(cur, attempt) or require_in_lake(cur, attempt, pipeline.targets)
    found = landed or contents.require_staged(cur, attempt)
    reach("commit.counts_ok")
    effect = publish(cur, pipeline, attempt, lane, found.rows)
    reach("commit.published")
    contents.keep_digests(cur, attempt, found.by_place, published_digests(cur, pipeline, attempt, found))
    return effect


def _move_offsets(cur: cursor, folder: PipelineFolder, attempt: AttemptId, lane: Lane, effect: Effect) -> None:
    ledger.write_ledger(cur, attempt, lane, effect, folder.content_hash())
    move_event_time(cur, folder.pipeline, attempt, lane)
    reach("commit.ledger_written")
