"""Opens attempts under the batch's row lock, fences them by token, renews their leases and closes each once."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from psycopg2.extras import Json, execute_values

from lockstep.core.errors import Refusal, Superseded
from lockstep.core.guarantees import WHOLE_BATCH
from lockstep.core.staging import AttemptId
from lockstep.ledger.plan import DOUBLINGS, HAND_OVER_SECONDS, LEASE_SECONDS, stream_ranges, uncommitted
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one
from lockstep.ledger.version import require_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.accounting import ManifestLine
    from lockstep.core.decisions import Caller
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.offsets import StreamRange

Q = queries("lockstep.ledger", "attempts")


def lock_batch(cur: cursor, batch_id: int) -> Any:
    """Takes the batch's row lock and returns the row. The lock covers each later decision of the transaction."""
    cur.execute(Q["lock_batch"], {"batch_id": batch_id})
    row = maybe(cur)
    if row is None:
        raise Refusal(f"batch {batch_id} is not in the ledger", next_command="lockstep status")
    require_version(row.ledger_version)
    return row


def require_newest(cur: cursor, attempt: AttemptId) -> None:
    """Fences (T1): raises `Superseded` unless the batch is planned and has this attempt's token and nonce."""
    batch = lock_batch(cur, attempt.batch_id)
    if batch.state != "planned":
        raise Superseded(f"batch {attempt.batch_id} is already {batch.state}")
    if batch.token != attempt.token:
        raise Superseded(f"attempt {attempt.token} of batch {attempt.batch_id} is superseded by attempt {batch.token}")
    require_same_timeline(attempt, batch.nonce)


def require_same_timeline(attempt: AttemptId, nonce: str | None) -> None:
    """Raises `Superseded` if the nonce is not the attempt's.

    The ledger was then restored after the attempt was opened.
    """
    if nonce != attempt.nonce:
        raise Superseded(
            f"attempt {attempt.token} of batch {attempt.batch_id} was opened in another timeline: the ledger was restored"
        )


def newest_attempt(cur: cursor, batch_id: int) -> Any:
    """Returns the attempt that has the batch's token, or None before the first attempt."""
    cur.execute(Q["newest_attempt"], {"batch_id": batch_id})
    return maybe(cur)


def open_attempt(
    cur: cursor,
    batch_id: int,
    folder: PipelineFolder,
    caller: Caller,
    log_starts: Mapping[int, int],
    code_version: str,
    unit: str = WHOLE_BATCH,
) -> AttemptId:
    """Draws token and nonce and fences out older attempts. `unit` is what one commit of the new one moves."""
    cur.execute(Q["draw_token"])
    attempt = AttemptId(batch_id, one(cur).token, str(uuid4()))
    facts = {
        "batch_id": batch_id,
        "token": attempt.token,
        "nonce": attempt.nonce,
        "owner": caller.owner,
        "lease": LEASE_SECONDS,
        "definition_hash": folder.content_hash(),
        "pipeline": folder.pipeline.name,
        "document": Json(folder.document()),
        "code_version": code_version,
        "dag_id": caller.task_run.dag_id,
        "dag_run_id": caller.task_run.dag_run_id,
        "task_instance_id": caller.task_run.task_instance_id,
        "try_number": caller.task_run.try_number,
        "log_starts": Json(dict(log_starts)),
        "unit": unit,
        "error": f"superseded by attempt {attempt.token}",
    }
    for statement in ("fence_batch", "supersede_older", "insert_definition", "insert_attempt"):
        cur.execute(Q[statement], facts)
    return attempt


def ranges(cur: cursor, batch_id: int) -> tuple[StreamRange, ...]:
    """Returns the ranges that the batch still has to read: those without a commit row."""
    return stream_ranges(uncommitted(cur, batch_id))


def lane_of(cur: cursor, batch_id: int) -> str:
    """Returns the batch's lane, which never changes."""
    cur.execute(Q["lane_of"], {"batch_id": batch_id})
    return str(one(cur).lane)


def logs(cur: cursor, batch_id: int) -> set[tuple[str, str]]:
    """Returns the (cluster id, topic id) of each uncommitted stream of a batch: one, unless the ledger is wrong."""
    return {(row.cluster_id, row.topic_id) for row in uncommitted(cur, batch_id)}


def renew_lease(cur: cursor, attempt: AttemptId) -> bool:
    """Renews the holder's lease. Returns False if this attempt no longer holds the batch."""
    cur.execute(Q["renew_lease"], asdict(attempt) | {"lease": LEASE_SECONDS})
    return bool(cur.rowcount)


def wait_for_no_standby(cur: cursor) -> None:
    """Makes this session's commits independent of any standby. Use it for leases alone."""
    cur.execute(Q["wait_for_no_standby"])


def free_lease(cur: cursor, attempt: AttemptId) -> None:
    """Frees the lease, so that the next run need not wait."""
    cur.execute(Q["free_lease"], asdict(attempt))


def hand_over(cur: cursor, attempt: AttemptId) -> None:
    """Keeps the batch for the run's next task. For a limited time, no other owner may take it (T2)."""
    cur.execute(Q["hand_over"], asdict(attempt) | {"lease": HAND_OVER_SECONDS, "doublings": DOUBLINGS})


def free_batch_lease(cur: cursor, batch_id: int, owner: str) -> None:
    """Frees the planner's lease on a batch without an attempt."""
    cur.execute(Q["free_batch_lease"], {"batch_id": batch_id, "owner": owner})


def name_application(cur: cursor, attempt: AttemptId, application_id: str | None) -> None:
    """Records the attempt's application id, its name on the engine's own pages."""
    cur.execute(Q["name_application"], asdict(attempt) | {"application_id": application_id})


def insert_manifest(
    cur: cursor,
    attempt: AttemptId,
    lines: Sequence[ManifestLine],
    contents: Mapping[tuple[int, int], tuple[int, int]],
) -> None:
    """Records the manifest lines of winning tasks, with the digests of their rows and rejects by (task, stream)."""
    rows = [
        (
            *(attempt.batch_id, attempt.token, line.task, line.stream_id, line.delivered, line.written, line.rejected),
            *(line.rows, line.bytes, line.digest.sum, line.digest.squares, line.first_offset, line.last_offset),
            *(line.min_timestamp, line.max_timestamp, *contents.get((line.task, line.stream_id), (0, 0))),
        )
        for line in lines
    ]
    if rows:
        execute_values(cur, Q["insert_manifest"], rows)


def mark_staged(cur: cursor, attempt: AttemptId) -> None:
    """Marks the attempt as staged: every record is read. Raises `Superseded` if it was closed meanwhile."""
    _must_move(cur, "mark_staged", attempt)


def seconds_staging(cur: cursor, attempt: AttemptId) -> float:
    """Returns the seconds from the attempt's opening until it was staged."""
    cur.execute(Q["seconds_staging"], asdict(attempt))
    return float(one(cur).seconds)


def mark_validated(cur: cursor, attempt: AttemptId) -> None:
    """Marks the attempt as validated: it may be committed. Raises `Superseded` if it was closed meanwhile."""
    _must_move(cur, "mark_validated", attempt)


def close_failed(cur: cursor, attempt: AttemptId, error: str, *, by_data: bool) -> None:
    """Closes the attempt without a commit. Only failures by data or code count towards blocking the batch (T8)."""
    cur.execute(Q["close_failed"], asdict(attempt) | {"error": error, "fault": "data" if by_data else "surroundings"})


def stream_totals(cur: cursor, attempt: AttemptId) -> list[Any]:
    """Adds up the kept manifests per stream. Includes streams that delivered nothing."""
    cur.execute(Q["stream_totals"], asdict(attempt))
    return every(cur)


def insert_results(
    cur: cursor, attempt: AttemptId, totals: Sequence[Any], starts: Mapping[int, tuple[int, int]]
) -> None:
    """Records the reconciled counts of each stream. `starts` are log starts before and after the read."""
    rows = [
        (
            *(
                attempt.batch_id,
                attempt.token,
                t.stream_id,
                t.delivered,
                t.written,
                t.delivered - t.written - t.rejected,
            ),
            *(
                t.rejected,
                t.quarantined,
                t.rows,
                t.bytes,
                t.first_offset,
                t.last_offset,
                t.min_timestamp,
                t.max_timestamp,
            ),
            *(t.digest_sum, t.digest_squares, *starts[t.stream_id], t.rows_digest, t.rejects_digest),
        )
        for t in totals
    ]
    execute_values(cur, Q["insert_result"], rows)


def insert_verdict(
    cur: cursor,
    attempt: AttemptId,
    folder: PipelineFolder,
    suite: str | None,
    *,
    success: bool,
    result: Mapping[str, Any],
) -> None:
    """Records the verdict, passed or not, with the definition that it was found under."""
    facts = {"suite": suite, "success": success, "result": Json(result), "definition_hash": folder.content_hash()}
    cur.execute(Q["insert_verdict"], asdict(attempt) | facts)


def _must_move(cur: cursor, statement: str, attempt: AttemptId) -> None:
    cur.execute(Q[statement], asdict(attempt))
    if cur.rowcount != 1:
        raise Superseded(f"attempt {attempt.token} of batch {attempt.batch_id} was closed meanwhile")
