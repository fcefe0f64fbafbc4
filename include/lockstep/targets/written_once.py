"""Decides whether tasks copy a batch's rows straight into their table, where the view hides them until the commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.core.pipeline.definition import PerBatch
from lockstep.core.pipeline.guarantees import Delivered
from lockstep.core.pipeline.violations import needs_staging
from lockstep.core.states import Lane
from lockstep.ledger.admin.shown_view import of_rows, rows_behind
from lockstep.ledger.batch.hidden import hidden_in, holds_abandoned
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import one
from lockstep.ledger.staging.suppression import erased_columns
from lockstep.targets import is_appended, straight
from lockstep.targets.table.parts import way_of_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder

Q = queries("lockstep.targets", "written_once")


@dataclass(frozen=True, slots=True)
class WayOfRows:
    """The way of a batch's rows: once, into `rows_table`, or by way of staging if that is None. Says why.

    `hidden_in` is the table in which an older attempt has hidden the batch. `left_in` are those that may hold rows of lost
    attempts at its offsets, behind whichever target. `parts_of` is a table by batch that tasks make parts of.
    """

    rows_table: str | None
    because: str
    hidden_in: str | None
    left_in: tuple[str, ...]
    parts_of: str | None = None


def way_of_rows(
    cur: cursor,
    folder: PipelineFolder,
    columns: Sequence[Column],
    batch_id: int | None,
    *,
    may_hide: bool = True,
    ranges: Sequence[StreamRange] = (),
    why: str = "",
) -> WayOfRows:
    """Returns the way of a batch's rows, and of the next live batch's without a `batch_id`.

    Nothing is said of a plain table, and without `may_hide`: rows are then staged, or committed by range. The next batch
    has these `ranges`. `why` is a reason of the caller's to stage them.
    """
    before = None if batch_id is None else hidden_in(cur, batch_id)
    pipeline = folder.pipeline
    can_hide = may_hide and isinstance(pipeline.guarantee, PerBatch) and is_appended(pipeline.first)
    rows_table = rows_behind(cur, pipeline.first.table) if can_hide else None
    left_in = _left_in(cur, pipeline, before)
    if rows_table is None:
        may_part = may_hide and before is None
        parts_of, because = way_of_parts(cur, folder, columns, batch_id, ranges, why) if may_part else (None, "")
        return WayOfRows(None, because, before, left_in, parts_of)
    staged = why or _why_staged(folder) or _why_not_now(cur, pipeline, rows_table, columns, batch_id)
    if staged:
        return WayOfRows(None, f"rows are staged for {rows_table}: {staged}", before, left_in)
    because = f"rows are written once, into {rows_table}, and shown by the commit"
    return WayOfRows(rows_table, because, before, left_in)


def _left_in(cur: cursor, pipeline: Pipeline, before: str | None) -> tuple[str, ...]:
    """Returns the tables that may hold hidden rows of a lost attempt or an abandoned batch, in a fixed order.

    An earlier definition may have had another first target, or another guarantee.
    """
    if isinstance(pipeline.guarantee, Delivered):
        return () if before is None else (before,)
    behind = (rows_behind(cur, target.table) for target in pipeline.targets if is_appended(target))
    found = {rows for rows in behind if rows is not None and holds_abandoned(cur, rows)}
    return tuple(sorted(found | ({before} if before else set())))


def _why_staged(folder: PipelineFolder) -> str:
    if not folder.is_straight:
        return "a transform makes them" if folder.transforms else "they go into several targets"
    if needs_staging(folder.expectations):
        return "an expectation looks at what only staged rows have"
    if folder.pipeline.first.feed is not None:
        return "the commit catches the changes of the feed"
    return ""


def _why_not_now(
    cur: cursor, pipeline: Pipeline, rows_table: str, columns: Sequence[Column], batch_id: int | None
) -> str:
    cur.execute(Q["facts"], {"rows_table": rows_table, "batch_id": batch_id})
    facts = one(cur)
    reasons = (
        (facts.is_preview, "a preview commits nothing"),
        (facts.lane == Lane.REPLAY, "a replay's rows meet the keys of those that they replace"),
        (facts.has_triggers, "the table has triggers"),
        (not facts.is_granted, f"tasks may not write there before lockstep migrate {pipeline.name}"),
        (bool(erased_columns(cur, pipeline.name)), "keys of it were erased, and staged rows are looked through"),
        (
            not straight(cur, of_rows(pipeline, rows_table).first, columns),
            "a column needs a cast, or the table has rules or policies",
        ),
    )
    return next((why for holds, why in reasons if holds), "")
