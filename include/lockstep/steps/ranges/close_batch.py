"""Closes a batch whose ranges were committed one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.core.states import BatchState
from lockstep.faults import reach
from lockstep.ledger.batch import attempts
from lockstep.ledger.batch import commit as ledger
from lockstep.ledger.batch.ranges import require_all_ranges
from lockstep.steps.batch.commit_batch import COMMIT_LOCK_SECONDS, require_fence

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import AttemptId


def close_batch(conn: connection, folder: PipelineFolder, attempt: AttemptId) -> None:
    """Closes attempt and batch as committed. Raises `Refusal` if a range is missing."""
    with transaction(conn, COMMITTER, lock_seconds=COMMIT_LOCK_SECONDS) as cur:
        batch = attempts.lock_batch(cur, attempt.batch_id)
        if batch.state == BatchState.COMMITTED and ledger.committed_by(cur, attempt.batch_id) == attempt:
            return
        require_fence(cur, folder, attempt)
        require_all_ranges(cur, attempt.batch_id)
        ledger.close(cur, attempt, {})
        reach("commit.closed")
