"""Runs the steps as tasks: each loads its imports, calls the command line's step, and reports the result."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from lockstep.airflow import witness
from lockstep.airflow.door import push, task_caller
from lockstep.core.errors import BadData
from lockstep.core.pipeline.stores import require_address
from lockstep.core.planning.decisions import Blocked, Busy, Done, Idle, Resume, Start
from lockstep.core.staging import AttemptId
from lockstep.core.states import AttemptState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Asset

    from lockstep.airflow.door import Door
    from lockstep.steps.batch.plan import Planned
    from lockstep.steps.context import Context


def plan_batch(door: Door) -> int:
    """Returns the batch of this run. Skips the run without one, and fails it if a person must decide."""
    from lockstep.airflow import logs
    from lockstep.core.planning.decisions import decision_document
    from lockstep.steps.batch import plan as step

    with door.opened("plan") as at:
        folder = door.folder()
        require_address(folder.pipeline.name, folder.pipeline.store, at.stores)
        planned = step.plan(at.conn, at.broker, folder, task_caller(), datetime.now(UTC))
        batch_id = _batch_to_do(planned)
        ranges = _ranges(at, batch_id)
        logs.say_batch(at, "plan", batch_id, **decision_document(planned.decision))
    push(ranges=[f"{row['topic']}-{row['partition']} [{row['from_offset']}, {row['until_offset']})" for row in ranges])
    return batch_id


def validate_batch(door: Door, batch_id: int) -> str | int:
    """Returns the fence of this run's attempt, after its verdict passes."""
    from lockstep.airflow import logs
    from lockstep.steps.attempt.pick_up import pick_up
    from lockstep.steps.batch import validate as step

    with door.opened("validate") as at:
        found = pick_up(at.conn, batch_id, task_caller().task_run)
        try:
            if found.state == AttemptState.STAGED:
                step.validate(at, door.folder(), found.attempt, hands_over=True)
        except BadData:
            logs.say_verdict(at, batch_id)
            raise
        logs.say_verdict(at, batch_id)
    return found.attempt.fence


def commit_validated_batch(door: Door, batch_id: int, fence: str | int) -> None:
    """Commits the attempt, or finds that an earlier try of this task has."""
    from lockstep.airflow import logs
    from lockstep.steps.batch import commit as step

    with door.opened("commit") as at:
        step.commit(at, door.folder(), AttemptId.of_fence(batch_id, fence))
        ranges = _ranges(at, batch_id)
        logs.say_batch(at, "commit", batch_id)
    push(**witness.batch_counts(ranges))


def announce_batch(door: Door, assets: Sequence[Asset], batch_id: int, fence: str | int) -> None:
    """Announces the commit: consumer group, asset events, metrics, lineage. A failed announcement undoes nothing."""
    from lockstep.airflow import logs
    from lockstep.steps.batch import announce as step
    from lockstep.steps.inspect import status

    attempt = AttemptId.of_fence(batch_id, fence)
    with door.opened("announce") as at:
        pipeline = door.folder().pipeline
        step.announce(at, pipeline, attempt)
        ranges = _ranges(at, batch_id)
        progress = status.status(at.conn, at.broker, pipeline, datetime.now(UTC))
        for asset in assets:
            witness.say_to_consumers(asset, batch_id, attempt.token, ranges)
        witness.measure(pipeline.name, ranges, progress["streams"])
        is_traced = witness.trace(at, pipeline, batch_id, attempt.token, ranges)
    logs.say_announced(pipeline.name, [batch_id], assets, ranges, progress["streams"], is_traced=is_traced)


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
