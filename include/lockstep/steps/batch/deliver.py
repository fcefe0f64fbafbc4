"""Delivers results that move apart from the offsets.

The ledger fences them before they move, and the store while they move.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.core.errors import BadData, Refusal
from lockstep.core.pipeline.guarantees import AtMostOnce
from lockstep.core.states import BatchState, Lane
from lockstep.faults import reach
from lockstep.ledger.batch import attempts
from lockstep.ledger.batch import commit as ledger
from lockstep.ledger.batch import delivery as deliveries
from lockstep.ledger.batch.same_definition import require_promoted, require_same_definition
from lockstep.ledger.changes.restored import knows_attempt
from lockstep.ledger.staging.contents import require_staged
from lockstep.targets.stores.delivery import Delivery, NewerArrival
from lockstep.targets.stores.stores import results_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context

DELIVERY_LOCK_SECONDS = 60


@contextmanager
def rows_out_of_staging(at: Context, folder: PipelineFolder, attempt: AttemptId) -> Iterator[Delivery | None]:
    """Copies the attempt's rows from the ledger's staging into a folder that is deleted with the block.

    Copies them under the batch's row lock, and only if they could be committed now. Yields None if they have been.
    """
    with TemporaryDirectory(prefix="lockstep-") as spool:
        yield _take(at, folder, attempt, Path(spool))


def deliver_rows(at: Context, delivery: Delivery) -> dict[str, int]:
    """Delivers the rows to the store. They are durable when this returns.

    No transaction of the ledger is open meanwhile (T6).
    """
    try:
        effect = results_of(delivery.pipeline, at.dsn, at.stores).bring(delivery)
    except NewerArrival as newer:
        _refuse_lost_timeline(at, delivery, newer)
        raise
    reach("deliver.done")
    return effect


def bring_once(at: Context, delivery: Delivery) -> None:
    """Delivers the rows to the store after their offsets. Raises a failure once, as an error that no retry can mend."""
    batch_id = delivery.attempt.batch_id
    try:
        effect = deliver_rows(at, delivery)
    except Refusal as refusal:
        raise BadData(
            f"{delivery.pipeline.name}: the offsets of batch {batch_id} are committed, its results may be lost: {refusal}",
            next_command=f"lockstep batch {batch_id}; lockstep replay {delivery.pipeline.name} --batch {batch_id}",
        ) from None
    with transaction(at.conn, COMMITTER, lock_seconds=DELIVERY_LOCK_SECONDS) as cur:
        deliveries.confirm(cur, delivery.attempt, effect)


def _refuse_lost_timeline(at: Context, delivery: Delivery, newer: NewerArrival) -> None:
    """Refuses if the store holds an attempt that the ledger does not know.

    The ledger then went back in time, and the store did not.
    """
    with transaction(at.conn, COMMITTER) as cur:
        if knows_attempt(cur, newer.batch_id, newer.token):
            return
    name = delivery.pipeline.name
    raise Refusal(
        f"{name}: the store holds what attempt {newer.token} of batch {newer.batch_id} brought, and this ledger has no "
        "such attempt: the ledger was restored to an earlier time",
        next_command=f"lockstep restored {name} --preview",
    )


def _require_still(at: Context, pipeline: Pipeline, attempt: AttemptId) -> None:
    """Raises `Superseded` unless the ledger still has these offsets for this attempt."""
    with transaction(at.conn, COMMITTER, lock_seconds=DELIVERY_LOCK_SECONDS) as cur:
        if isinstance(pipeline.guarantee, AtMostOnce):
            deliveries.require_owned(cur, attempt)
        else:
            attempts.require_newest(cur, attempt)


def _take(at: Context, folder: PipelineFolder, attempt: AttemptId, spool: Path) -> Delivery | None:
    pipeline = folder.pipeline
    with transaction(at.conn, COMMITTER, lock_seconds=DELIVERY_LOCK_SECONDS) as cur:
        batch = attempts.lock_batch(cur, attempt.batch_id)
        if batch.state == BatchState.COMMITTED and ledger.committed_by(cur, attempt.batch_id) == attempt:
            return None
        attempts.require_newest(cur, attempt)
        require_same_definition(cur, attempt, folder)
        require_promoted(cur, attempt, folder)
        ledger.require_validated(cur, attempt)
        if batch.lane == Lane.LIVE:
            ledger.require_positions(cur, attempt)
        delivery = Delivery(
            pipeline,
            attempt,
            batch.lane,
            deliveries.delivered_ranges(cur, attempt.batch_id),
            deliveries.epochs(cur, pipeline.name),
            deliveries.staged_types(cur, attempt),
            require_staged(cur, attempt).rows,
            spool,
            folder.content_hash(),
            partial(_require_still, at, pipeline, attempt),
            deliveries.former_names(cur, pipeline.name),
        )
        results_of(pipeline, at.dsn, at.stores).take(cur, delivery)
    reach("deliver.taken")
    return delivery
