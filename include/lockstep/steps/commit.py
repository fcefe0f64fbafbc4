"""Commits a batch. The guarantee is the order in which results and offsets move, and `commit` lists these orders."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg2

from lockstep.adapters.postgres import COMMITTER, PLANNER, transaction
from lockstep.adapters.postgres_words import without_values
from lockstep.core.definition import AtLeastOnce, AtMostOnce, Idempotent, PerBatch, PerPartition
from lockstep.core.errors import BadData, CoverageMoved, LockTimeout, Refusal, Unreachable
from lockstep.core.guarantees import EACH_STREAM
from lockstep.faults import reach
from lockstep.ledger import attempts, contents
from lockstep.ledger import commit as ledger
from lockstep.ledger import delivery as deliveries
from lockstep.ledger.ranges import require_whole
from lockstep.ledger.same_definition import require_same_definition
from lockstep.ledger.target_rows import require_target_rows
from lockstep.steps.deliver import bring, bring_once, taken
from lockstep.steps.failure import TRY_AGAIN, recorded
from lockstep.steps.lease import Lease
from lockstep.steps.plan_request import give_up
from lockstep.steps.resolve import was_committed
from lockstep.targets import publish_staged, withdraw
from lockstep.targets.published import published
from lockstep.targets.rows import staged_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from psycopg2.extensions import cursor

    from lockstep.core.definition import Pipeline
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.staging import AttemptId
    from lockstep.steps.surroundings import Surroundings

TRIES = 5
LOCK_SECONDS = 60


def commit(at: Surroundings, folder: PipelineFolder, attempt: AttemptId) -> None:
    """Commits the attempt once. Returns when it has committed its batch, even if the connection was lost.

    Raises `DefinitionChanged`, with the attempt closed, when it was not staged under this folder's content. Raises
    `Superseded` when another attempt owns or has committed the batch. Raises `BadData` when the target refuses the
    rows. Raises `CoverageMoved`, with the batch abandoned, when a fill or replay finds other coverage than planned.
    """
    with Lease(at.dsn, attempt), recorded(at, attempt, but=TRY_AGAIN):
        match folder.pipeline.guarantee:
            case PerBatch() | PerPartition():
                _move(at, folder, attempt)  # results and offsets, in one transaction; or tasks have moved both
            case Idempotent() | AtLeastOnce():
                with taken(at, folder, attempt) as delivery:
                    if delivery:
                        effect = bring(at, delivery)  # results, by key or simply once more
                        _move(at, folder, attempt, effect)  # then offsets
            case AtMostOnce():
                with taken(at, folder, attempt) as delivery:
                    if delivery:
                        _move(at, folder, attempt, {})  # offsets
                        bring_once(at, delivery)  # then results, and never again


def _move(
    at: Surroundings, folder: PipelineFolder, attempt: AttemptId, effect: Mapping[str, int] | None = None
) -> None:
    """Moves the offsets until it is known to be done.

    Moves the results with them, unless they were moved elsewhere with this `effect`.
    """
    why = ""
    for _ in range(TRIES):
        try:
            _record_backend(at, attempt)
            _commit(at, folder, attempt, effect)
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
        f"{folder.pipeline.name}: batch {attempt.batch_id} could not be committed in {TRIES} tries, "
        f"nothing of it was written: {why}",
        next_command=f"lockstep run {folder.pipeline.name}",
    )


def _commit(at: Surroundings, folder: PipelineFolder, attempt: AttemptId, effect: Mapping[str, int] | None) -> None:
    with transaction(at.conn, COMMITTER, lock_seconds=LOCK_SECONDS) as cur:
        # Fenced: under the batch's row lock, still planned, and this attempt is the newest.
        batch = attempts.lock_batch(cur, attempt.batch_id)
        if batch.state == "committed" and ledger.committed_by(cur, attempt.batch_id) == attempt:
            return
        attempts.require_newest(cur, attempt)
        reach("commit.locked")
        # One definition: the published rows are the staged and validated ones, and go to the target they were made for.
        require_same_definition(cur, attempt, folder)
        ledger.require_validated(cur, attempt)
        reach("commit.fence_ok")
        if attempts.newest_attempt(cur, attempt.batch_id).unit == EACH_STREAM:
            # Its tasks have moved results and offsets. It remains to prove that nothing of the batch is missing.
            require_whole(cur, attempt.batch_id)
            ledger.close(cur, attempt, {})
            reach("commit.closed")
            return
        if batch.lane == "live":
            # No gap: every position stands where this batch begins, and stays locked there.
            ledger.require_positions(cur, attempt)
        else:
            # No overlap: exactly the coverage that was planned to be replaced makes room.
            ledger.give_way(cur, attempt)
        # Whole: the staged rows are still those that were staged and validated, by count and by digest.
        found = contents.require_staged(cur, attempt)
        reach("commit.counts_ok")
        if effect is None:
            # Results.
            effect = publish_rows(cur, folder.pipeline, attempt, batch.lane, found.rows)
            reach("commit.published")
        else:
            # Results are elsewhere. Rejects belong to the ledger all the same.
            record_elsewhere(cur, folder.pipeline, attempt, effect)
        contents.keep(cur, attempt, found.by_place, published(cur, folder.pipeline, attempt, found))
        # Offsets: commit rows, coverage, positions by compare-and-set; the constraints check them again at COMMIT.
        ledger.write_ledger(cur, attempt, batch.lane, effect, folder.content_hash())
        reach("commit.ledger_written")


def record_elsewhere(cur: cursor, pipeline: Pipeline, attempt: AttemptId, effect: Mapping[str, int]) -> None:
    """Moves rejects with the offsets. Records the store's confirmation.

    Without that confirmation, the offsets are refused.
    """
    ledger.publish_rejects(cur, attempt)
    if not isinstance(pipeline.guarantee, AtMostOnce):
        deliveries.confirm(cur, attempt, effect)


def publish_rows(cur: cursor, pipeline: Pipeline, attempt: AttemptId, lane: str, rows: int) -> dict[str, Any]:
    """Publishes the staged rows in place of those of replaced segments. Returns what the target did.

    The answers of several targets stand under their tables' names.
    """
    counts = require_target_rows(cur, attempt, pipeline.targets, rows)
    effects: dict[str, dict[str, int]] = {}
    ledger.publish_rejects(cur, attempt)
    for place, target in enumerate(pipeline.targets):
        if place:
            reach("commit.between_targets")
        with refused_by_target(pipeline, attempt, target.table):
            withdrawn = {}
            if lane == "replay":
                withdrawn = withdraw(cur, target, attempt.batch_id)
                reach("replay.old_deleted")
            effects[target.table] = withdrawn | publish_staged(cur, target, staged_rows(attempt, counts[place], place))
    return effects if len(effects) > 1 else effects[pipeline.first.table]


@contextmanager
def refused_by_target(pipeline: Pipeline, attempt: AttemptId, table: str) -> Iterator[None]:
    """Turns the database's refusal of rows into `BadData`, in one line that names table and constraint."""
    try:
        yield
    except BadData as error:
        error.next_command = error.next_command or f"lockstep batch {attempt.batch_id}"
        raise
    except psycopg2.OperationalError:
        raise  # the connection or a lock: the rows are not the cause
    except psycopg2.DatabaseError as error:
        constraint = f" by {error.diag.constraint_name}" if error.diag.constraint_name else ""
        said, values = without_values(error)
        raise BadData(
            f"{pipeline.name}: batch {attempt.batch_id}: {table} refuses the rows{constraint}: {said}",
            next_command=f"lockstep batch {attempt.batch_id}",
            values=values,
        ) from None


def _give_up(at: Surroundings, attempt: AttemptId, reason: str) -> None:
    with transaction(at.conn, PLANNER) as cur:
        attempts.require_newest(cur, attempt)
        give_up(cur, attempt.batch_id, reason)


def _end_stagers(at: Surroundings, attempt: AttemptId) -> None:
    """Ends sessions that still write into a validated attempt's staging. They may hold a table to be attached."""
    with transaction(at.conn, None) as cur:
        ledger.end_stagers(cur, attempt.stager)


def _record_backend(at: Surroundings, attempt: AttemptId) -> None:
    """Records which connection commits, in a transaction of its own, asked for as the login (T16)."""
    with transaction(at.conn, None) as cur:
        backend = ledger.my_backend(cur)
    with transaction(at.conn, COMMITTER) as cur:
        ledger.record_backend(cur, attempt, backend)
