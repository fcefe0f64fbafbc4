"""Opens attempts under the batch's row lock, fences them by token, renews their leases and closes each once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from psycopg2.extras import Json

from lockstep.core.errors import Refusal, Superseded
from lockstep.core.staging import AttemptId
from lockstep.core.states import AttemptState, BatchState, CommitUnit, Lane
from lockstep.ledger.batch.plan import DOUBLINGS, HAND_OVER_SECONDS, LEASE_SECONDS, stream_ranges, uncommitted
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import as_type, every, maybe, one
from lockstep.ledger.version import require_version

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from psycopg2.extensions import cursor

    from lockstep.core.figures import Application
    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.decisions import Caller
    from lockstep.core.planning.routes import Route

Q = queries("lockstep.ledger.batch", "attempts")


class LockedBatch(NamedTuple):
    """A batch as it is while its row is locked. `token` and `nonce` are its newest attempt's."""

    batch_id: int
    pipeline: str
    lane: Lane
    state: BatchState
    token: int
    nonce: str | None
    owner: str
    planned_at: datetime
    lease_is_live: bool
    ledger_version: int


class NewestAttempt(NamedTuple):
    """The attempt that has its batch's token, and its holder."""

    token: int
    nonce: str | None
    state: AttemptState
    error: str | None
    owner: str
    dag_id: str | None
    dag_run_id: str | None
    try_number: int | None
    lease_is_live: bool


class Opened(NamedTuple):
    """The facts that an attempt opened with: the unit of a commit, and each stream's log start before the read."""

    unit: CommitUnit
    log_starts: dict[int, int]


def lock_batch(cur: cursor, batch_id: int) -> LockedBatch:
    """Takes the batch's row lock and returns the row. The lock covers each later decision of the transaction."""
    cur.execute(Q["lock_batch"], {"batch_id": batch_id})
    row = maybe(cur)
    if row is None:
        raise Refusal(f"batch {batch_id} is not in the ledger", next_command="lockstep status")
    require_version(row.ledger_version)
    return as_type(LockedBatch, row, lane=Lane, state=BatchState)


def require_newest(cur: cursor, attempt: AttemptId) -> None:
    """Fences (T1): raises `Superseded` unless the batch is planned and has this attempt's token and nonce."""
    batch = lock_batch(cur, attempt.batch_id)
    if batch.state != BatchState.PLANNED:
        raise Superseded(f"batch {attempt.batch_id} is already {batch.state}")
    if batch.token != attempt.token:
        raise Superseded(f"attempt {attempt.token} of batch {attempt.batch_id} is superseded by attempt {batch.token}")
    require_same_timeline(attempt, batch.nonce)


def require_same_timeline(attempt: AttemptId, nonce: str | None) -> None:
    """Raises `Superseded` if the nonce is not the attempt's.

    The ledger was then restored after the attempt was opened.
    """
    if nonce != attempt.nonce:
        raise _of_another_timeline(attempt)


def _of_another_timeline(attempt: AttemptId) -> Superseded:
    return Superseded(
        f"attempt {attempt.token} of batch {attempt.batch_id} was opened in another timeline: the ledger was restored"
    )


def newest_attempt(cur: cursor, batch_id: int) -> NewestAttempt | None:
    """Returns the attempt that has the batch's token, or None before the first attempt."""
    cur.execute(Q["newest_attempt"], {"batch_id": batch_id})
    row = maybe(cur)
    return as_type(NewestAttempt, row, state=AttemptState) if row else None


def opened(cur: cursor, attempt: AttemptId) -> Opened:
    """Returns the facts that an attempt opened with, whether or not it is still its batch's newest.

    Raises `Superseded` if the ledger, restored since, does not have the attempt.
    """
    cur.execute(Q["opened"], asdict(attempt))
    row = maybe(cur)
    if row is None:
        raise _of_another_timeline(attempt)
    return Opened(CommitUnit(row.unit), {int(stream): start for stream, start in row.log_starts.items()})


@dataclass(frozen=True, slots=True)
class Opening:
    """The facts with which an attempt opens. `log_starts` is by stream, and `unit` is what one of its commits moves."""

    log_starts: Mapping[int, int]
    code_version: str
    route: Route
    unit: CommitUnit = CommitUnit.BATCH


def open_attempt(
    cur: cursor,
    batch_id: int,
    folder: PipelineFolder,
    caller: Caller,
    how: Opening,
) -> AttemptId:
    """Draws token and nonce and fences out older attempts."""
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
        "code_version": how.code_version,
        "dag_id": caller.task_run.dag_id,
        "dag_run_id": caller.task_run.dag_run_id,
        "task_instance_id": caller.task_run.task_instance_id,
        "try_number": caller.task_run.try_number,
        "task_id": caller.task_run.task_id,
        "map_index": caller.task_run.map_index,
        "log_starts": Json(dict(how.log_starts)),
        "unit": how.unit,
        "route": Json(how.route.document()),
        "error": f"superseded by attempt {attempt.token}",
    }
    for statement in ("fence_batch", "supersede_older", "insert_definition", "insert_attempt"):
        cur.execute(Q[statement], facts)
    return attempt


def lane_of(cur: cursor, batch_id: int) -> Lane:
    """Returns the batch's lane, which never changes."""
    cur.execute(Q["lane_of"], {"batch_id": batch_id})
    return Lane(one(cur).lane)


def ranges_and_logs(cur: cursor, batch_id: int) -> tuple[tuple[StreamRange, ...], dict[str, set[tuple[str, str]]]]:
    """Returns the ranges that the batch still has to read, and the logs of their topics, as of one moment.

    A log is a (cluster id, topic id). A topic has one, unless the ledger is wrong.
    """
    logs: dict[str, set[tuple[str, str]]] = {}
    rows = uncommitted(cur, batch_id)
    for row in rows:
        logs.setdefault(row.topic, set()).add((row.cluster_id, row.topic_id))
    return stream_ranges(rows), logs


def renew_lease(cur: cursor, attempt: AttemptId) -> bool:
    """Renews the holder's lease. Returns False if this attempt no longer holds the batch."""
    cur.execute(Q["renew_lease"], asdict(attempt) | {"lease": LEASE_SECONDS})
    return bool(cur.rowcount)


def session_waits_for_no_standby(cur: cursor) -> None:
    """Makes this session's commits independent of any standby. Use it for leases alone."""
    cur.execute(Q["wait_for_no_standby"])


def free_lease(cur: cursor, attempt: AttemptId) -> None:
    """Frees the lease, so that the next run need not wait."""
    cur.execute(Q["free_lease"], asdict(attempt))


def hand_over_lease(cur: cursor, attempt: AttemptId) -> None:
    """Keeps the batch for the run's next task. For a limited time, no other owner may take it (T2)."""
    cur.execute(Q["hand_over"], asdict(attempt) | {"lease": HAND_OVER_SECONDS, "doublings": DOUBLINGS})


def free_batch_lease(cur: cursor, batch_id: int, owner: str) -> None:
    """Frees the planner's lease on a batch without an attempt."""
    cur.execute(Q["free_batch_lease"], {"batch_id": batch_id, "owner": owner})


def name_application(cur: cursor, attempt: AttemptId, application: Application) -> None:
    """Records the attempt's application: its name on the engine's own pages, where these are, and its event log."""
    cur.execute(Q["name_application"], asdict(attempt) | asdict(application))


def mark_staged(cur: cursor, attempt: AttemptId, route: Route) -> None:
    """Marks the attempt as staged: every record is read, on this route. Raises `Superseded` if it was closed meanwhile."""
    _must_move(cur, "mark_staged", attempt, route=Json(route.document()))


def seconds_staging(cur: cursor, attempt: AttemptId) -> float:
    """Returns the seconds from the attempt's opening until it was staged."""
    cur.execute(Q["seconds_staging"], asdict(attempt))
    return float(one(cur).seconds)


def mark_validated(cur: cursor, attempt: AttemptId) -> None:
    """Marks the attempt as validated: it may be committed. Raises `Superseded` if it was closed meanwhile."""
    _must_move(cur, "mark_validated", attempt)


def open_attempts_of_task(cur: cursor, task_instance_id: str) -> list[AttemptId]:
    """Returns the attempts that a task of Airflow has opened and that nobody has closed."""
    cur.execute(Q["open_attempts_of_task"], {"task_instance_id": task_instance_id})
    return [AttemptId(row.batch_id, row.token, row.nonce) for row in every(cur)]


def close_failed(cur: cursor, attempt: AttemptId, error: str, *, by_data: bool) -> None:
    """Closes the attempt without a commit. Only failures by data or code count towards blocking the batch (T8)."""
    cur.execute(Q["close_failed"], asdict(attempt) | {"error": error, "fault": "data" if by_data else "surroundings"})


def _must_move(cur: cursor, statement: str, attempt: AttemptId, **more: Json) -> None:
    cur.execute(Q[statement], asdict(attempt) | more)
    if cur.rowcount != 1:
        raise Superseded(f"attempt {attempt.token} of batch {attempt.batch_id} was closed meanwhile")
