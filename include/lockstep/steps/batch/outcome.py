"""Reads what became of a run's batch, and shows the windows that time has passed meanwhile."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import LockTimeout, Unreachable
from lockstep.ledger.batch import commit as ledger
from lockstep.ledger.feed.reading import announced_changes
from lockstep.ledger.windows.reading import changed_windows
from lockstep.steps.windows.emit import emit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.steps.batch.run import RunReport
    from lockstep.steps.context import Context


def complete_report(at: Context, pipeline: Pipeline, report: RunReport) -> RunReport:
    """Adds the batch's ranges and changes as the ledger has them, and the windows that are shown behind it."""
    report.changes = {target.table: 0 for target in pipeline.targets if target.feed is not None}
    if report.batch_id is not None:
        with _said_as_committed(report), transaction(at.conn, READER) as cur:
            report.ranges = ledger.committed_ranges(cur, report.batch_id)
            report.changes |= announced_changes(cur, report.batch_id) if report.changes else {}
            report.windows = changed_windows(cur, report.batch_id, pipeline)
    with suppress(LockTimeout), _said_as_committed(report):  # another writes the table, and shows its windows next
        report.emission = emit(at.conn, at.broker, pipeline)
    return report


@contextmanager
def _said_as_committed(report: RunReport) -> Iterator[None]:
    """Says of a batch that it is committed if the ledger goes away behind it, as in a failover."""
    try:
        yield
    except Unreachable as away:
        if not report.went_on or report.superseded:
            raise
        raise Unreachable(
            f"{report.pipeline}: batch {report.batch_id} is committed, and its figures cannot be read: {away.message}",
            next_command=f"lockstep batch {report.batch_id}",
        ) from None
