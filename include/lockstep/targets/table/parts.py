"""Decides whether each task makes a part of a table by batch, which the commit attaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.lake.iceberg import is_lake_table
from lockstep.core.pipeline.definition import PerBatch
from lockstep.core.states import Lane
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import one
from lockstep.ledger.staging.suppression import erased_columns
from lockstep.targets import is_appended, straight
from lockstep.targets.by_batch import is_by_batch
from lockstep.targets.table.fit import types_of_target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import StreamRange
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.folder import PipelineFolder

Q = queries("lockstep.targets.table", "parts")
LEAST_OFFSETS = 50_000  # of a batch. A smaller one is staged and attached as one table in no more time.
MOST_PARTS = 64  # of a batch. Each is a table, which a query without a batch looks into.


def way_of_parts(
    cur: cursor,
    folder: PipelineFolder,
    columns: Sequence[Column],
    batch_id: int | None,
    ranges: Sequence[StreamRange] = (),
    why: str = "",
) -> tuple[str | None, str]:
    """Returns the table by batch that tasks make parts of, or None, and why.

    Says nothing of other targets. Without a `batch_id` it judges the next live batch, which has these ranges.
    `why` is a reason of the caller's to stage rows.
    """
    pipeline = folder.pipeline
    if not isinstance(pipeline.guarantee, PerBatch) or not is_appended(pipeline.first):
        return None, ""
    table = pipeline.first.table
    if len(pipeline.targets) > 1 or is_lake_table(table) or not is_by_batch(cur, table):
        return None, ""
    if staged := why or _why_staged(cur, folder, columns, batch_id, ranges):
        return None, f"rows are staged for {table}, and attached by the commit: {staged}"
    return table, f"each range becomes a part of {table}, and the commit attaches them"


def _why_staged(
    cur: cursor,
    folder: PipelineFolder,
    columns: Sequence[Column],
    batch_id: int | None,
    ranges: Sequence[StreamRange],
) -> str:
    if folder.transforms:
        return "a transform makes them"
    if folder.expectations is not None:
        return "expectations judge them before"
    target = folder.pipeline.first
    size = {"ranges": len(ranges), "offsets": sum(item.offsets.span for item in ranges)}
    cur.execute(Q["facts"], {"table": target.table, "batch_id": batch_id} | size)
    facts = one(cur)
    names = straight(cur, target, columns)
    reasons = (
        (facts.is_preview, "a preview commits nothing"),
        (facts.lane == Lane.REPLAY, "a replay moves rows of several batches"),
        (facts.offsets < LEAST_OFFSETS, f"fewer than {LEAST_OFFSETS:,} offsets are one table's"),
        (facts.ranges > MOST_PARTS, f"{facts.ranges} ranges would make more than {MOST_PARTS} parts"),
        (facts.has_triggers, "the table has triggers"),
        (facts.has_foreign_keys, "the table has foreign keys"),
        (facts.has_other_keys, "an index has an expression or a condition"),
        (bool(erased_columns(cur, folder.pipeline.name)), "keys of it were erased, and staged rows are looked through"),
        (not names, "a column needs a cast, or the table has rules or policies"),
        (types_of_target(cur, target.table).keys() - set(names), "the table has columns that are not decoded"),
    )
    return next((why for holds, why in reasons if holds), "")
