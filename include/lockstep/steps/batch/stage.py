"""Stages a batch: opens the attempt, reads exactly the ranges, keeps the winners' manifest.

Nothing of it is visible to readers yet.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import STAGER, transaction
from lockstep.core.engine import Staging
from lockstep.core.errors import BadDefinition
from lockstep.core.lake.iceberg import database_places
from lockstep.core.pipeline.guarantees import NO_SUITE, Delivered, commit_unit
from lockstep.core.proof.accounting import counted_once, require_alike, require_within
from lockstep.core.staging import AttemptId, StageWork
from lockstep.core.states import CommitUnit
from lockstep.faults import reach
from lockstep.installed import installed_version
from lockstep.ledger.batch import attempts, hidden, results
from lockstep.ledger.batch.archived import files_below
from lockstep.ledger.batch.plan import planned_ranges
from lockstep.ledger.lake.moves import insert_files
from lockstep.ledger.lake.of_tasks import beside_files
from lockstep.ledger.staging import target_rows
from lockstep.ledger.staging.contents import staged_by_task, staged_together
from lockstep.ledger.staging.quarantine import create_raw
from lockstep.ledger.staging.staged import analyze, create_staging, staged_records, staging
from lockstep.ledger.staging.suppression import without_erased
from lockstep.steps.attempt.failure import failure_recorded
from lockstep.steps.attempt.lease import Lease
from lockstep.steps.attempt.measure import measured
from lockstep.steps.attempt.opening import end_older, require_bound, require_free, require_own
from lockstep.steps.batch.same_log import log_starts
from lockstep.steps.batch.validate import require_counts
from lockstep.steps.lake.open_tables import require_lake_fit
from lockstep.steps.lake.stage_files import begin_files, make_folders, read_back, way_into_lake
from lockstep.steps.ranges.stage_once import clear_older, land_ranges, why_staged
from lockstep.steps.ranges.stage_ranges import commit_ranges
from lockstep.targets.stores.stores import results_of
from lockstep.targets.table.fit import require_fit
from lockstep.targets.written_once import way_of_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockstep.core.engine import Engine
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.decisions import Caller
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.ledger.staging.contents import Staged
    from lockstep.steps.context import Context
    from lockstep.steps.lake.stage_files import FilesOfTasks
    from lockstep.targets.written_once import WayOfRows

MANY = 10_000  # rows. Fewer are found as fast by any plan.


def stage(
    at: Context,
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
    columns = (engine.columns(), *(engine.columns(place) for place in range(1, len(folder.pipeline.targets))))
    unit = CommitUnit.BATCH if whole else commit_unit(folder.pipeline.guarantee)
    attempt, work, rows = _open(at, engine, folder, batch_id, caller, columns, None if whole else unit)
    with Lease(at.dsn, attempt, engine.cancel, hands_over=caller.hands_over), failure_recorded(at, attempt):
        clear_older(at, attempt, rows.left_in)
        make_folders(work)
        is_named = _named(at, engine, attempt, work)
        reach("stage.session_up")
        with measured(at, engine, work) as ask_for_figures:
            landed = land_ranges(at, engine, folder, attempt, work, rows)
            lines = () if landed else _read(at, engine, folder, attempt, work, unit)
            ask_for_figures()
            held = read_back(work, lines)
            if not is_named:  # by now Spark may have been asked after all
                _named(at, engine, attempt, work)
            with transaction(at.conn, STAGER) as cur:
                attempts.require_newest(cur, attempt)
                lines, found = _counted(cur, folder, attempt, lines, held) if lines else ((), {})
                streams, each = [item.stream_id for item in work.ranges], found if folder.fans_out else None
                target_rows.insert_target_rows(cur, attempt, folder.pipeline.targets, streams, lines, each)
                attempts.mark_staged(cur, attempt, engine.route().begun_in(work.archived).also(rows.because))
        reach("stage.done")
    return attempt


def _read(
    at: Context, engine: Engine, folder: PipelineFolder, attempt: AttemptId, work: StageWork, unit: CommitUnit
) -> Sequence[ManifestLine]:
    """Reads into the sink of this unit. Returns the lines of staged rows, and none if ranges were committed."""
    if unit == CommitUnit.STREAM:
        commit_ranges(at, engine, folder, attempt, work)
        return ()
    lines = engine.read(work, Staging())
    require_within(lines, work.ranges)
    return lines


def _counted(
    cur: Any, folder: PipelineFolder, attempt: AttemptId, lines: Sequence[ManifestLine], held: FilesOfTasks
) -> tuple[Sequence[ManifestLine], Mapping[tuple[int, int], Staged]]:
    """Keeps the winners' lines if they agree with what is staged, or held by files. Returns it by (place, stream), too."""
    places = range(len(folder.pipeline.targets))
    if sum(line.rows for line in lines) >= MANY:
        for place in places:
            analyze(cur, staging(attempt, place))
    is_counted_here = folder.transform is not None or (len(places) > 1 and not folder.fans_out)
    lines = without_erased(cur, folder.pipeline.name, attempt, lines, places, is_counted_here=is_counted_here)
    winners = {line.task for line in lines}
    if is_counted_here:
        lines = counted_once(lines, staged_records(cur, attempt, [*winners], places))
    staged = beside_files(staged_by_task(cur, attempt, places), held)
    insert_files(cur, attempt, {at: [f for (p, _), its in held.items() if p == at for f in its] for at in places})
    by_task = staged_together(staged, lambda _, task, stream: (task, stream))
    results.insert_manifest(cur, attempt, lines, {key: its.digests for key, its in by_task.items()})
    by_stream = staged_together(staged, lambda _, task, stream: stream if task in winners else None)
    require_counts(results.stream_totals(cur, attempt), by_stream)
    found = staged_together(staged, lambda place, task, stream: (place, stream) if task in winners else None)
    if folder.fans_out:
        counts = {where: (its.rows, its.offsets) for where, its in found.items()}
        require_alike(attempt.batch_id, lines, [t.table for t in folder.pipeline.targets], counts)
    return lines, found


def _open(
    at: Context,
    engine: Engine,
    folder: PipelineFolder,
    batch_id: int,
    caller: Caller,
    columns: Sequence[tuple[Column, ...]],
    wanted: CommitUnit | None,
) -> tuple[AttemptId, StageWork, WayOfRows]:
    name, unit = folder.pipeline.name, wanted or CommitUnit.BATCH
    if unit == CommitUnit.STREAM and folder.expectations is not None:
        raise BadDefinition(f"{name}: expectations.json: {NO_SUITE}")
    starts = log_starts(at, folder.pipeline, batch_id)
    first, *beside = columns
    elsewhere = isinstance(folder.pipeline.guarantee, Delivered)
    if elsewhere:
        results_of(folder.pipeline, at.dsn, at.stores).require_fit(folder.pipeline, first)
    tables = require_lake_fit(at.conn, folder.pipeline, columns)
    with transaction(at.conn, STAGER) as cur:
        for place in database_places(folder.pipeline.targets) if not elsewhere else ():
            require_fit(cur, folder.pipeline.each()[place], columns[place])
        batch = attempts.lock_batch(cur, batch_id)
        require_own(batch, name)
        require_free(batch, attempts.newest_attempt(cur, batch_id), caller)
        require_bound(cur, folder.pipeline, batch_id)
        may_hide = wanted == CommitUnit.BATCH
        rows = way_of_rows(cur, folder, first, batch_id, may_hide=may_hide, why=why_staged(at))
        lake = way_into_lake(cur, folder, batch_id)
        rows = replace(rows, because="; ".join(filter(None, (rows.because, lake.because))))
        if unit == CommitUnit.STREAM or rows.left_in or rows.parts_of:
            end_older(cur, batch_id)
        (ranges, _), planned_at = attempts.ranges_and_logs(cur, batch_id), batch.planned_at.astimezone(UTC)
        planned = planned_ranges(cur, batch_id) if folder.transforms else ()
        archived = files_below(cur, folder.pipeline, ranges, starts)
        route = engine.route().begun_in(archived).also(rows.because)
        how = attempts.Opening(starts, installed_version() or "not installed", route, unit)
        attempt = attempts.open_attempt(cur, batch_id, folder, caller, how)
        if unit == CommitUnit.BATCH:
            for place, its_columns in enumerate(columns):
                create_staging(cur, attempt, place, its_columns)
            hidden.hide(cur, attempt, rows.rows_table, rows.hidden_in)
            if folder.quarantines and (folder.transform is not None or rows.rows_table):
                create_raw(cur, attempt, of_tasks=rows.rows_table is not None)
        work = StageWork(name, batch_id, attempt.token, ranges, first, tuple(beside), planned_at, attempt.nonce)
        work = begin_files(cur, work, tables) if lake.by_tasks else work
    return attempt, replace(work, archived=archived, planned=planned), rows


def _named(at: Context, engine: Engine, attempt: AttemptId, work: StageWork) -> bool:
    """Records which application reads the attempt. Returns False if there is none. May start a JVM."""
    if (application := engine.application(work)) is not None:
        with transaction(at.conn, STAGER) as cur:
            attempts.name_application(cur, attempt, application)
    return application is not None
