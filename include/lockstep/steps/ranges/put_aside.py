"""Puts records aside whose rows are hidden behind a view: they are deleted there before the commit can show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.adapters.connection.roles import become
from lockstep.adapters.postgres import PARTITION_ROLE, STAGER
from lockstep.core.errors import BadData
from lockstep.faults import reach
from lockstep.ledger.admin.shown_view import of_rows
from lockstep.ledger.staging.quarantine import put_aside_hidden
from lockstep.targets.proof.published import of_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.staging import AttemptId, HiddenRows
    from lockstep.ledger.staging.quarantine import Aside


def put_aside_behind(
    cur: cursor, attempt: AttemptId, hidden: HiddenRows, violators: Mapping[tuple[int, int], str]
) -> dict[int, Aside]:
    """Makes these records rejects, in the stager's transaction that keeps the verdict. Returns the counts by stream.

    The transaction holds the batch's lock. No newer attempt has rows of its own there.
    """
    become(cur, PARTITION_ROLE)
    gone = put_aside_hidden(cur, attempt, hidden, violators)
    reach("land.put_aside")
    become(cur, STAGER)
    return gone


def require_left(
    cur: cursor,
    pipeline: Pipeline,
    attempt: AttemptId,
    hidden: HiddenRows,
    totals: Sequence[Any],
    staged: Mapping[int, Any],
) -> None:
    """Refuses if the table holds other rows than are left by count and digest, or staging other rejects."""
    become(cur, PARTITION_ROLE)
    held = of_ranges(cur, of_rows(pipeline, hidden.table).first, attempt, hidden.columns)
    become(cur, STAGER)
    for total in totals:
        rejects = staged.get(total.stream_id)
        found = (held.counts[total.stream_id], rejects.rejected if rejects else 0)
        if found != (total.rows, total.rejected) or held.by_stream[total.stream_id] != total.rows_digest:
            raise BadData(
                f"{total.topic}-{total.partition} [{total.from_offset}, {total.until_offset}): {hidden.table} and staging "
                f"hold (rows, rejects) {found} or other contents, and {(total.rows, total.rejected)} are left"
            )
