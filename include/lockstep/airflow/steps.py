"""Runs the steps as tasks: each loads its imports, calls the command line's step, and reports the result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.adapters.airflow.names import AirflowFailException, AirflowSkipException
from lockstep.airflow import witness
from lockstep.airflow.door import NOT_HANDED_ON, OWN_PAGE, task_caller
from lockstep.core.errors import BadData
from lockstep.core.pipeline.stores import require_address
from lockstep.core.planning.decisions import Blocked, Busy, Done, Idle, Resume, Start
from lockstep.core.staging import AttemptId
from lockstep.core.states import AttemptState, BatchState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Asset

    from lockstep.airflow.door import Door, TaskPage
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.decisions import Caller
    from lockstep.steps.attempt.pick_up import PickedUp
    from lockstep.steps.batch.plan import Planned
    from lockstep.steps.context import Context


def plan_batch(door: Door) -> int:
    """Returns the batch of this run. Skips the run without one, and fails it if a person must decide."""
    with door.opened("plan") as at:
        planned = decide_batch(at, door.folder(), task_caller())
        return say_planned(at, planned)


def decide_batch(at: Context, folder: PipelineFolder, caller: Caller) -> Planned:
    """Plans the caller's batch."""
    from lockstep.steps.batch import plan as step

    require_address(folder.pipeline.name, folder.pipeline.store, at.stores)
    return step.plan(at.conn, at.broker, folder, caller, datetime.now(UTC))


def say_planned(at: Context, planned: Planned, page: TaskPage = OWN_PAGE) -> int:
    """Returns the planned batch, after it is in the log. Skips the run without one, and fails it if a person must decide."""
    from lockstep.airflow import logs
    from lockstep.core.planning.decisions import decision_document

    batch_id = _batch_to_do(planned)
    ranges = _ranges(at, batch_id)
    logs.say_batch(at, "plan", batch_id, **decision_document(planned.decision))
    page.push(
        ranges=[f"{row['topic']}-{row['partition']} [{row['from_offset']}, {row['until_offset']})" for row in ranges]
    )
    return batch_id


def validate_batch(door: Door, batch_id: int) -> str | int:
    """Returns the fence of this run's attempt, after its verdict passes."""
    from lockstep.steps.attempt.pick_up import pick_up

    with door.opened("validate") as at:
        found = pick_up(at.conn, named_batch(batch_id), task_caller().task_run)
        judge_attempt(at, door.folder(), found, hands_over=True)
    return found.attempt.fence


def judge_attempt(at: Context, folder: PipelineFolder, found: PickedUp, *, hands_over: bool) -> None:
    """Validates an attempt unless an earlier try has. The verdict is in the log, whether it refuses the batch or not."""
    from lockstep.airflow import logs
    from lockstep.steps.batch import validate as step

    try:
        if found.state == AttemptState.STAGED:
            step.validate(at, folder, found.attempt, hands_over=hands_over)
    except BadData:
        logs.say_verdict(at, found.attempt.batch_id)
        raise
    logs.say_verdict(at, found.attempt.batch_id)


def commit_validated_batch(door: Door, batch_id: int, fence: str | int) -> None:
    """Commits the attempt, or finds that an earlier try of this task has."""
    with door.opened("commit") as at:
        commit_attempt(at, door.folder(), fenced_attempt(batch_id, fence))


def commit_attempt(at: Context, folder: PipelineFolder, attempt: AttemptId, page: TaskPage = OWN_PAGE) -> None:
    """Commits the attempt, and says what the batch has become."""
    from lockstep.airflow import logs
    from lockstep.steps.batch import commit as step

    step.commit(at, folder, attempt)
    logs.say_batch(at, "commit", attempt.batch_id)
    page.push(**witness.batch_counts(_ranges(at, attempt.batch_id)))


def announce_batch(door: Door, assets: Sequence[Asset], batch_id: int, fence: str | int) -> None:
    """Announces the commit: consumer group, asset events, metrics, lineage. A failed announcement undoes nothing."""
    with door.opened("announce") as at:
        announce_attempt(at, door.folder().pipeline, assets, fenced_attempt(batch_id, fence))


def announce_attempt(
    at: Context, pipeline: Pipeline, assets: Sequence[Asset], attempt: AttemptId, page: TaskPage = OWN_PAGE
) -> None:
    """Announces the attempt's commit, and says to whom. Fails if there is no commit, with nothing done."""
    from lockstep.airflow import logs
    from lockstep.steps.attempt.opening import require_own_attempt
    from lockstep.steps.batch import announce as step
    from lockstep.steps.inspect import status

    batch_id = attempt.batch_id
    require_own_attempt(at.conn, attempt, pipeline.name)
    ranges = _ranges(at, batch_id)
    for state in {row["state"] for row in ranges} - {BatchState.COMMITTED}:
        raise AirflowFailException(
            f"batch {batch_id} is {state}, and not committed: nothing is announced  Next: clear the task commit"
        )
    step.announce(at, pipeline, attempt)
    progress = status.status(at.conn, at.broker, pipeline, datetime.now(UTC))
    for asset in assets:
        page.emit(asset, witness.news_of(batch_id, attempt.token, ranges))
    witness.measure(pipeline.name, ranges, progress["streams"])
    is_traced = witness.trace(at, pipeline, batch_id, attempt.token, ranges)
    logs.say_announced(pipeline.name, [batch_id], assets, ranges, progress["streams"], is_traced=is_traced)


def named_batch(batch_id: int | None) -> int:
    """Returns the batch that `plan` has named. Fails without one."""
    if batch_id is None:
        raise AirflowFailException(f"plan has named no batch: {NOT_HANDED_ON}  Next: clear the task plan")
    return int(batch_id)


def fenced_attempt(batch_id: int | None, fence: str | int | None) -> AttemptId:
    """Returns the attempt that `validate` has let pass. Fails without one."""
    found = named_batch(batch_id)
    if fence is None:
        reason = f"validate has let no attempt of batch {found} pass: {NOT_HANDED_ON}"
        raise AirflowFailException(f"{reason}  Next: clear the task validate")
    return AttemptId.of_fence(found, fence)


def _batch_to_do(planned: Planned) -> int:
    match planned.decision:
        case Start() | Resume() if planned.batch_id is not None:
            return planned.batch_id
        case Done(batch_id):
            raise AirflowSkipException(f"batch {batch_id} of this run is already committed: nothing is done again")
        case Idle(reason) | Busy(_, reason):
            raise AirflowSkipException(reason)
        case Blocked(reason, next_command):
            raise AirflowFailException(f"{reason}  Next: {next_command}")
    raise AssertionError(planned)


def _ranges(at: Context, batch_id: int) -> list[dict[str, Any]]:
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.batch.commit import committed_ranges

    with transaction(at.conn, READER) as cur:
        return [row._asdict() for row in committed_ranges(cur, batch_id)]
