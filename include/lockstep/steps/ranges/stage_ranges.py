"""Stages per partition: tasks commit the ranges they read, and the driver commits those that delivered nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PLANNER, STAGER, transaction
from lockstep.core.errors import BadData, CoverageMoved
from lockstep.core.proof.accounting import nothing
from lockstep.core.states import RangeEnd
from lockstep.ledger.batch import attempts
from lockstep.ledger.batch.one_log import planned_epochs
from lockstep.steps.ranges.task import RangesOfAttempt
from lockstep.steps.requests.plan_request import give_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.engine import Engine, RangeOutcome, RangeTask
    from lockstep.core.offsets import TopicPartition
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.retention.archive import ArchivedFile
    from lockstep.core.staging import AttemptId, StageWork
    from lockstep.steps.context import Context


def commit_ranges(at: Context, engine: Engine, folder: PipelineFolder, attempt: AttemptId, work: StageWork) -> None:
    """Has tasks read and commit every range of the work. When it returns, each has its commit row.

    Raises `BadData` with the first reason when ranges were refused. The others stay committed, and a resume reads only
    the refused ones.
    """
    ranges = work.ranges
    if not ranges:
        return
    with transaction(at.conn, STAGER) as cur:
        attempts.require_newest(cur, attempt)  # another one may have committed these ranges meanwhile
        lane = attempts.lane_of(cur, attempt.batch_id)
        _, logs = attempts.ranges_and_logs(cur, attempt.batch_id)
        epochs = planned_epochs(cur, attempt.batch_id)
        starts = attempts.opened(cur, attempt).log_starts
    task = RangesOfAttempt(
        dsn=at.dsn,
        broker=at.broker,
        pipeline=folder.pipeline,
        attempt=attempt,
        lane=lane,
        ranges={item.stream_id: item for item in ranges},
        columns=work.columns,
        logs=logs,
        definition_hash=folder.content_hash(),
        log_starts={item.stream_id: starts[item.stream_id] for item in ranges},
        epochs=epochs,
        archived=_stretches(work.archived),
    )
    outcomes = outcomes_of(engine, work, task)
    for outcome in outcomes:
        if outcome.what == RangeEnd.MOVED:
            with transaction(at.conn, PLANNER) as cur:
                attempts.require_newest(cur, attempt)
                give_up(cur, attempt.batch_id, str(outcome.reason))
            raise CoverageMoved(str(outcome.reason))
    require_taken(attempt, outcomes)


def outcomes_of(engine: Engine, work: StageWork, task: RangeTask) -> list[RangeOutcome]:
    """Has tasks read the work into their ranges. Ranges that delivered nothing end here. Returns each one's outcome."""
    outcomes = list(engine.read(work, task))
    told = {outcome.stream_id for outcome in outcomes}
    if silent := [item for item in work.ranges if item.stream_id not in told]:
        with task.session() as session:
            outcomes += [session.commit(nothing(item)) for item in silent]
    return sorted(outcomes)


def require_taken(attempt: AttemptId, outcomes: Sequence[RangeOutcome]) -> None:
    """Raises `BadData` with the first reason if ranges were refused."""
    refused = [outcome for outcome in outcomes if outcome.what == RangeEnd.REFUSED]
    if refused:
        more = f" (and {len(refused) - 1} more ranges)" if len(refused) > 1 else ""
        message, _, values = str(refused[0].reason).partition("\n")
        raise BadData(f"{message}{more}", next_command=f"lockstep batch {attempt.batch_id}", values=values)


def _stretches(files: Sequence[ArchivedFile]) -> dict[TopicPartition, tuple[tuple[int, int], ...]]:
    found: dict[TopicPartition, tuple[tuple[int, int], ...]] = {}
    for file in files:
        where, its = file.offsets.topic_partition, (file.offsets.from_offset, file.offsets.until_offset)
        found[where] = (*found.get(where, ()), its)
    return found
