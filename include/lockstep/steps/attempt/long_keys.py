"""Turns staged records into rejects whose values are too long for an index of their table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.core.lake.iceberg import database_places
from lockstep.ledger.batch import attempts
from lockstep.targets.rows import staged_rows
from lockstep.targets.table.long_keys import long_values

if TYPE_CHECKING:
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.pipeline.violations import Judgement
    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context
    from lockstep.targets.table.long_keys import LongValue


def judge_keys(at: Context, folder: PipelineFolder, attempt: AttemptId, suite: Judgement) -> Judgement:
    """Returns the suite's judgement, and with it the records that no index of the table can hold.

    Changes nothing for several targets, or for results elsewhere: the commit then names the first such record.
    """
    pipeline = folder.pipeline
    if len(pipeline.targets) > 1 or pipeline.store is not None or not database_places(pipeline.targets):
        return suite
    with transaction(at.conn, COMMITTER) as cur:
        attempts.require_newest(cur, attempt)
        found = long_values(cur, pipeline.first, staged_rows(attempt, 0))
    kept = "" if folder.quarantines else "; its bytes are not kept"
    refused = {(each.stream_id, each.offset): _reason(each) + kept for each in found}
    return replace(suite, violators=refused | suite.violators) if refused else suite


def _reason(found: LongValue) -> str:
    return f"column {found.name}: {found.size} bytes are too long for an index of {found.table}: {found.why}"
