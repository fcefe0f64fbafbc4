"""Stages a batch whose rows are written once: tasks copy them into their table, where a view hides them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PARTITION_ROLE, STAGER, transaction
from lockstep.core.planning.routes import may_end_its_reader
from lockstep.faults import reach
from lockstep.ledger.admin.shown_view import of_rows
from lockstep.ledger.batch import attempts, hidden, ranges
from lockstep.steps.lake.stage_files import way_into_lake
from lockstep.steps.ranges.land_range import RangesWrittenOnce
from lockstep.steps.ranges.part_range import RangesInParts
from lockstep.steps.ranges.stage_ranges import outcomes_of, require_taken
from lockstep.targets.written_once import way_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.engine import Engine
    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.routes import Route
    from lockstep.core.staging import AttemptId, StageWork
    from lockstep.steps.context import Context
    from lockstep.targets.written_once import WayOfRows


def next_route(at: Context, engine: Engine, folder: PipelineFolder, ranges: Sequence[StreamRange]) -> Route:
    """Returns the way of the next live batch's records, and of its rows into their table or the lake."""
    route = engine.route()
    if folder.pipeline.store is not None:
        return route
    with transaction(at.conn, STAGER) as cur:
        if folder.is_straight:
            route = route.also(
                way_of_rows(cur, folder, engine.columns(), None, ranges=ranges, why=why_staged(at)).because
            )
        return route.also(way_into_lake(cur, folder, None).because)


def why_staged(at: Context) -> str:
    """Returns the reason to stage rows that tasks could write once, if executors have a login that stages alone."""
    return "the login of executors stages alone" if at.stager_dsn else ""


def clear_older(at: Context, attempt: AttemptId, rows_tables: Sequence[str]) -> None:
    """Deletes what attempts before this one have copied of the batch's offsets into these tables.

    They are fenced out, and those of abandoned batches are over. They copy no more.
    """
    if not rows_tables:
        return
    with transaction(at.conn, PARTITION_ROLE) as cur:
        ranges.require_newest_of_range(cur, attempt)
        for rows_table in rows_tables:
            hidden.clear(cur, attempt.batch_id, rows_table)
        reach("land.cleared")


def land_ranges(
    at: Context, engine: Engine, folder: PipelineFolder, attempt: AttemptId, work: StageWork, rows: WayOfRows
) -> bool:
    """Has tasks copy every range of the work into the table, or into parts of it. Returns True when each has landed.

    Raises `BadData` with the first reason when ranges were refused. The next attempt reads them all again.
    """
    into = rows.rows_table or rows.parts_of
    if into is None:
        return False
    with transaction(at.conn, STAGER) as cur:
        attempts.require_newest(cur, attempt)  # the staging of a superseded attempt may be gone
        lane = attempts.lane_of(cur, attempt.batch_id)
        hidden.let_tasks_reject(cur, attempt)
        has_cut = hidden.has_cut(cur, attempt)  # pieces stay in the way of whole ranges that follow a reader's death
    kind = RangesInParts if rows.parts_of else RangesWrittenOnce
    task = kind(
        dsn=at.dsn,
        broker=at.broker,
        pipeline=of_rows(folder.pipeline, into),
        attempt=attempt,
        lane=lane,
        ranges={item.stream_id: item for item in work.ranges},
        columns=work.columns,
        logs={},
        definition_hash=folder.content_hash(),
        log_starts={},
        epochs={},
        shown=folder.pipeline.first.table,
        keeps_bytes=folder.quarantines,
        may_cut=rows.parts_of is None and not has_cut and not may_end_its_reader(folder.pipeline),
    )
    require_taken(attempt, outcomes_of(engine, work, task))
    return True
