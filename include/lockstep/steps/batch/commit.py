"""Commits under each guarantee: `commit` lists the orders in which results and offsets move.

`commit_batch` is the transaction itself. Here are its retries, and what it publishes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import COMMITTER, PLANNER, transaction
from lockstep.core.errors import CoverageMoved, LockTimeout, Refusal, Unreachable
from lockstep.core.lake.iceberg import database_places, lake_places
from lockstep.core.pipeline.definition import AtLeastOnce, AtMostOnce, Idempotent, PerBatch, PerPartition
from lockstep.core.pipeline.formats import is_marked
from lockstep.core.states import Lane
from lockstep.faults import reach
from lockstep.ledger.batch import attempts, hidden
from lockstep.ledger.batch import commit as ledger
from lockstep.ledger.batch import delivery as deliveries
from lockstep.ledger.batch.parts import attach_parts
from lockstep.ledger.lake.of_tasks import rows_in_files
from lockstep.ledger.staging.target_rows import require_target_rows
from lockstep.steps.attempt.holding import holding_attempt
from lockstep.steps.attempt.resolve import was_committed
from lockstep.steps.attempt.target_refusal import refused_by_target
from lockstep.steps.batch.commit_batch import COMMIT_TRIES, commit_batch
from lockstep.steps.batch.deliver import bring_once, deliver_rows, rows_out_of_staging
from lockstep.steps.feed.announce_changes import open_changes
from lockstep.steps.lake.commit_to_lake import commit_to_lake
from lockstep.steps.lake.keyed import move_tables, with_copies
from lockstep.steps.ranges.close_batch import close_batch
from lockstep.steps.requests.plan_request import give_up
from lockstep.steps.windows.move import judge_batch
from lockstep.targets import publish_staged, withdraw
from lockstep.targets.rows import staged_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from psycopg2.extensions import connection, cursor

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context
    from lockstep.steps.lake.commit_to_lake import Moves

    Transaction = Callable[[connection, PipelineFolder, AttemptId], None]


def commit(at: Context, folder: PipelineFolder, attempt: AttemptId) -> None:
    """Commits the attempt once. Returns when it has committed its batch, even if the connection was lost.

    Raises `DefinitionChanged`, with the attempt closed, when it was not staged under this folder's content. Raises
    `Superseded` when another attempt owns or has committed the batch. Raises `BadData` when the target refuses the
    rows. Raises `CoverageMoved`, with the batch abandoned, when a fill or replay finds other coverage than planned.
    """
    with holding_attempt(at, folder.pipeline, attempt):
        match folder.pipeline.guarantee:
            case PerBatch() if lake_places(folder.pipeline.targets):
                commit_to_lake(at, folder, attempt, lambda moves: _move(at, folder, attempt, with_lake(moves)))
            case PerBatch():
                _move(at, folder, attempt, with_results)  # results and offsets, in one transaction
            case PerPartition():
                _move(at, folder, attempt, close_batch)  # each range's task has moved both
            case Idempotent() | AtLeastOnce():
                with rows_out_of_staging(at, folder, attempt) as delivery:
                    if delivery:
                        effect = deliver_rows(at, delivery)  # results, by key or simply once more
                        _move(at, folder, attempt, without_results(effect))  # then offsets
            case AtMostOnce():
                with rows_out_of_staging(at, folder, attempt) as delivery:
                    if delivery:
                        _move(at, folder, attempt, without_results({}))  # offsets
                        bring_once(at, delivery)  # then results, and never again


def with_results(conn: connection, folder: PipelineFolder, attempt: AttemptId) -> None:
    """Commits offsets together with the results."""
    commit_batch(conn, folder, attempt, publish_rows)


def with_lake(moves: Moves) -> Transaction:
    """Returns the transaction that commits offsets, results in the database, and prepared moves of lake tables."""
    return partial(commit_batch, publish=partial(publish_rows, moves=moves))


def without_results(effect: Mapping[str, int]) -> Transaction:
    """Returns the transaction that commits offsets alone. The results of this `effect` live elsewhere."""
    return partial(commit_batch, publish=partial(record_elsewhere, effect))


def _move(at: Context, folder: PipelineFolder, attempt: AttemptId, committing: Transaction) -> None:
    """Runs the transaction, again if need be, until it is known to be done."""
    why = ""
    for _ in range(COMMIT_TRIES):
        try:
            _record_backend(at, attempt)
            committing(at.conn, folder, attempt)
            reach("commit.done_unacknowledged")
        except LockTimeout as busy:
            why = busy.message
            _end_stagers(at, attempt)
            continue  # nothing was written: the whole transaction is tried again, the staging is kept
        except CoverageMoved as moved:
            _give_up(at, attempt, str(moved))  # nothing was written, and by this plan nothing ever can be
            raise
        except Unreachable as away:
            why = away.message
            if not was_committed(at, attempt):
                continue  # no commit row is there, so the same token may try again (T16)
        return
    raise Refusal(
        f"{folder.pipeline.name}: batch {attempt.batch_id} could not be committed in {COMMIT_TRIES} tries, "
        f"nothing of it was written: {why}",
        next_command=f"lockstep run {folder.pipeline.name}",
    )


def record_elsewhere(
    effect: Mapping[str, int], cur: cursor, pipeline: Pipeline, attempt: AttemptId, _lane: Lane, _rows: int
) -> Mapping[str, int]:
    """Moves rejects with the offsets, and records the store's confirmation. The results are there with this `effect`.

    Without that confirmation, the offsets are refused.
    """
    ledger.publish_rejects(cur, attempt)
    if not isinstance(pipeline.guarantee, AtMostOnce):
        deliveries.confirm(cur, attempt, effect)
    return effect


def publish_rows(
    cur: cursor, pipeline: Pipeline, attempt: AttemptId, lane: Lane, rows: int, moves: Moves | None = None
) -> dict[str, Any]:
    """Publishes the staged rows in place of those of replaced segments. Returns what the target did.

    The answers of several targets stand under their tables' names. Pointers of the lake move last, by these `moves`.
    """
    counts = require_target_rows(cur, attempt, pipeline.targets, rows, rows_in_files(cur, attempt, pipeline.targets))
    if hidden.show_batch(cur, attempt):  # the rows are where they stay, and are seen from the COMMIT on
        _attach(cur, pipeline, attempt)
        reach("commit.shown")
        ledger.publish_rejects(cur, attempt)
        return {"inserted": rows}
    effects: dict[str, dict[str, int]] = {}
    ledger.publish_rejects(cur, attempt)
    judge_batch(cur, pipeline, attempt.batch_id)
    pipeline = with_copies(cur, pipeline, moves or {})
    for place, target in database_places(pipeline.targets).items():
        if place:
            reach("commit.between_targets")
        with refused_by_target(pipeline, attempt, target.table):
            open_changes(cur, pipeline.name, target, attempt.batch_id)
            withdrawn = {}
            if lane == Lane.REPLAY:
                withdrawn = withdraw(cur, target, attempt.batch_id, keeps=is_marked(pipeline.format))
                reach("replay.old_deleted")
            rows_of = staged_rows(attempt, counts[place], place)
            effects[target.table] = withdrawn | publish_staged(cur, target, rows_of, pipeline.event_time)
    effects = (move_tables(cur, pipeline, attempt, moves) | effects) if moves else effects
    return effects if len(effects) > 1 else effects[pipeline.first.table]


def _attach(cur: cursor, pipeline: Pipeline, attempt: AttemptId) -> None:
    """Attaches the parts that tasks have made, if they made any."""
    with refused_by_target(pipeline, attempt, pipeline.first.table):
        attach_parts(cur, pipeline.first.table, attempt)


def _give_up(at: Context, attempt: AttemptId, reason: str) -> None:
    with transaction(at.conn, PLANNER) as cur:
        attempts.require_newest(cur, attempt)
        give_up(cur, attempt.batch_id, reason)


def _end_stagers(at: Context, attempt: AttemptId) -> None:
    """Ends sessions that still write into a validated attempt's staging. They may hold a table to be attached."""
    with transaction(at.conn, None) as cur:
        ledger.end_stagers(cur, attempt.stager)


def _record_backend(at: Context, attempt: AttemptId) -> None:
    """Records which connection commits, in a transaction of its own, asked for as the login (T16)."""
    with transaction(at.conn, None) as cur:
        backend = ledger.my_backend(cur)
    with transaction(at.conn, COMMITTER) as cur:
        ledger.record_backend(cur, attempt, backend)
