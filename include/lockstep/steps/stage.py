"""Stages a batch: opens the attempt, reads exactly the ranges, keeps the winners' manifest.

Nothing of it is visible to readers yet.
"""

from __future__ import annotations

from datetime import UTC
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import STAGER, transaction
from lockstep.adapters.processes import is_gone
from lockstep.core.accounting import counted_once, suppressed
from lockstep.core.errors import BadData, BadDefinition, Refusal, Superseded
from lockstep.core.guarantees import EACH_STREAM, NO_SUITE, WHOLE_BATCH, Delivered, commit_unit
from lockstep.core.staging import AttemptId, StageWork
from lockstep.faults import reach
from lockstep.ledger import attempts, target_rows
from lockstep.ledger.contents import staged_by_stream, staged_by_task
from lockstep.ledger.quarantine import create_raw
from lockstep.ledger.ranges import end_older_tasks
from lockstep.ledger.staged import analyze, create_staging, staged_records, staging
from lockstep.ledger.suppression import suppress
from lockstep.steps.failure import recorded
from lockstep.steps.lease import Lease
from lockstep.steps.same_log import log_starts
from lockstep.steps.stage_ranges import commit_ranges
from lockstep.steps.validate import require_counts
from lockstep.targets.fit import require_fit
from lockstep.targets.stores import results_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.accounting import ManifestLine
    from lockstep.core.columns import Column
    from lockstep.core.decisions import Caller, TaskRun
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.offsets import StreamRange
    from lockstep.core.staging import Engine
    from lockstep.steps.surroundings import Surroundings

MANY = 10_000  # rows. Fewer are found as fast by any plan.


def stage(
    at: Surroundings,
    engine: Engine,
    folder: PipelineFolder,
    batch_id: int,
    caller: Caller,
    *,
    whole: bool = False,
) -> AttemptId:
    """Opens an attempt at the batch, stages every visible record of its ranges and returns the attempt.

    Under `PerPartition` nothing is staged: the tasks commit each range, unless `whole` asks for the batch in one piece.
    Raises `Superseded` when another caller holds or has closed the batch. The offsets were fixed by plan.
    """
    pipeline = folder.pipeline
    columns = (engine.columns(), *(engine.columns(place) for place in range(1, len(pipeline.targets))))
    unit = WHOLE_BATCH if whole else commit_unit(pipeline.guarantee)
    attempt, work = _open(at, folder, batch_id, caller, columns, unit)
    with Lease(at.dsn, attempt, engine.cancel, hands_over=caller.hands_over), recorded(at, attempt):
        is_named = _named(at, engine, attempt, work)
        reach("stage.session_up")
        if unit == EACH_STREAM:
            commit_ranges(at, engine, folder, attempt, work)
            lines: Sequence[ManifestLine] = ()
        else:
            lines = engine.read(work)
            _require_planned(lines, work.ranges)
        if not is_named:  # by now Spark may have been asked after all
            _named(at, engine, attempt, work)
        with transaction(at.conn, STAGER) as cur:
            attempts.require_newest(cur, attempt)
            places = range(len(pipeline.targets))
            if sum(line.rows for line in lines) >= MANY:
                for place in places:
                    analyze(cur, staging(attempt, place))
            is_counted_here = folder.transform is not None or len(places) > 1
            if lines:
                lines = _without_erased(cur, pipeline.name, attempt, lines, places, is_counted_here=is_counted_here)
            if lines and is_counted_here:
                records = staged_records(cur, attempt, [line.task for line in lines], places)
                lines = counted_once(lines, records)
            staged = staged_by_task(cur, attempt, places) if lines else {}
            attempts.insert_manifest(cur, attempt, lines, {key: its.digests for key, its in staged.items()})
            if lines:
                found = staged_by_stream(staged, {line.task for line in lines})
                require_counts(attempts.stream_totals(cur, attempt), found)
            streams = [item.stream_id for item in work.ranges]
            target_rows.insert_target_rows(cur, attempt, pipeline.targets, streams, lines)
            attempts.mark_staged(cur, attempt)
        reach("stage.done")
    return attempt


def _without_erased(
    cur: Any,
    name: str,
    attempt: AttemptId,
    lines: Sequence[ManifestLine],
    places: Sequence[int],
    *,
    is_counted_here: bool,
) -> Sequence[ManifestLine]:
    """Drops rows of an erased key from staging. Their records count as filtered from here on.

    If records are counted here, lines count only deletions as written.
    """
    gone = suppress(cur, name, attempt, places)
    return [
        suppressed(line, its.rows, its.count(deletions_only=is_counted_here))
        if (its := gone.get((line.task, line.stream_id)))
        else line
        for line in lines
    ]


def _open(
    at: Surroundings,
    folder: PipelineFolder,
    batch_id: int,
    caller: Caller,
    columns: Sequence[tuple[Column, ...]],
    unit: str,
) -> tuple[AttemptId, StageWork]:
    name = folder.pipeline.name
    if unit == EACH_STREAM and folder.expectations is not None:
        raise BadDefinition(f"{name}: expectations.json: {NO_SUITE}")
    starts = log_starts(at, name, batch_id)
    first, *beside = columns
    elsewhere = isinstance(folder.pipeline.guarantee, Delivered)
    if elsewhere:
        results_of(folder.pipeline, at.dsn, at.stores).require_fit(folder.pipeline, first)
    with transaction(at.conn, STAGER) as cur:
        for one, its_columns in zip(folder.pipeline.each(), columns, strict=True) if not elsewhere else ():
            require_fit(cur, one, its_columns)
        batch = attempts.lock_batch(cur, batch_id)
        _require_own(batch, name)
        _require_free(batch, attempts.newest_attempt(cur, batch_id), caller)
        if unit == EACH_STREAM:
            _end_older_tasks(cur, batch_id)
        attempt = attempts.open_attempt(cur, batch_id, folder, caller, starts, version("lockstep"), unit)
        if unit == WHOLE_BATCH:
            for place, its_columns in enumerate(columns):
                create_staging(cur, attempt, place, its_columns)
            if folder.quarantines and folder.transform is not None:
                create_raw(cur, attempt)
        ranges, planned_at = attempts.ranges(cur, batch_id), batch.planned_at.astimezone(UTC)
    return attempt, StageWork(name, batch_id, attempt.token, ranges, first, tuple(beside), planned_at, attempt.nonce)


def _named(at: Surroundings, engine: Engine, attempt: AttemptId, work: StageWork) -> bool:
    """Records which application reads the attempt. Returns False if there is none. May start a JVM."""
    application_id = engine.application_id(work)
    if application_id is not None:
        with transaction(at.conn, STAGER) as cur:
            attempts.name_application(cur, attempt, application_id)
    return application_id is not None


def _end_older_tasks(cur: Any, batch_id: int) -> None:
    """Ends tasks of older attempts, under the batch's lock.

    Their uncommitted work would block the new attempt's tasks (T15).
    """
    cur.execute("select set_config('role', 'none', true)")  # under a role, a session may not end other logins' backends
    end_older_tasks(cur, batch_id)
    cur.execute("select set_config('role', %s, true)", (STAGER,))


def _require_own(batch: Any, name: str) -> None:
    """Refuses a batch of another pipeline. A restored ledger draws batch ids again, and may give one to another."""
    if batch.pipeline != name:
        raise Superseded(f"batch {batch.batch_id} is of the pipeline {batch.pipeline}, not of {name}: plan again")


def _require_free(batch: Any, newest: Any, caller: Caller) -> None:
    """Applies the lease rule (T2): a batch that is closed, or held by a live or later caller, is refused."""
    if batch.state == "committed":
        raise Superseded(f"batch {batch.batch_id} is already committed")
    if batch.state != "planned":
        raise Refusal(f"batch {batch.batch_id} was {batch.state}", next_command=f"lockstep run {batch.pipeline}")
    if newest and _is_older(caller.task_run, newest):
        raise Superseded(f"try {newest.try_number} of this task is at batch {batch.batch_id}, later than this one")
    holders = [(batch.owner, batch.lease_is_live)] + ([(newest.owner, newest.lease_is_live)] if newest else [])
    for owner, is_live in holders:
        if is_live and owner != caller.owner and not caller.take_over and not is_gone(owner):
            raise Superseded(f"batch {batch.batch_id} is held by {owner}")


def _is_older(task_run: TaskRun, newest: Any) -> bool:
    """Returns True if a later try of the same task has the newest attempt.

    Of two tries the later one continues, whichever came first. Otherwise they would take turns for ever.
    """
    if task_run.dag_id is None or (newest.dag_id, newest.dag_run_id) != (task_run.dag_id, task_run.dag_run_id):
        return False
    return bool((newest.try_number or 0) > (task_run.try_number or 0))


def _require_planned(lines: Sequence[ManifestLine], ranges: Sequence[StreamRange]) -> None:
    """Refuses lines of tasks that read outside of the planned ranges."""
    planned = {item.stream_id: item.offsets for item in ranges}
    for line in lines:
        offsets = planned.get(line.stream_id)
        if offsets is None:
            raise BadData(f"task {line.task} read stream {line.stream_id}, which the batch has no range of")
        if line.first_offset is None or line.last_offset is None:
            continue
        if not offsets.from_offset <= line.first_offset <= line.last_offset < offsets.until_offset:
            raise BadData(f"{offsets}: task {line.task} read offsets {line.first_offset} to {line.last_offset}")
