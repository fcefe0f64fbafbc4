"""Previews a fill or replay: stages and publishes it, computes the difference, and rolls everything back."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import COMMITTER, PLANNER, transaction
from lockstep.core.changes.row_changes import RowChange
from lockstep.core.errors import Refusal
from lockstep.core.planning.activity import COMPARING, READING, VALIDATING, Activity
from lockstep.core.planning.decisions import Idle, Resume, Start
from lockstep.faults import reach
from lockstep.ledger.batch import attempts
from lockstep.ledger.batch import commit as ledger
from lockstep.ledger.changes import requests
from lockstep.ledger.staging.contents import require_staged
from lockstep.steps.batch.announce import drop_staging
from lockstep.steps.batch.commit import publish_rows
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.lake.copy_offsets import bring_offsets, copy_offsets
from lockstep.steps.lake.open_tables import open_tables
from lockstep.steps.requests.plan_request import give_up, plan_request
from lockstep.steps.requests.requests import is_complete, require_results_here
from lockstep.targets.proof import difference as targets

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.engine import Engine
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.decisions import Caller, Decision
    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context

NEVER_COMMITTED = "a preview is never committed"
PREVIEW_SAMPLES = 10
PREVIEW_LOCK_SECONDS = 60


@dataclass(slots=True)
class Difference:
    """The change in rows of all targets and in rejects. `samples` are the first few rows of each target and kind.

    `targets` has the counts of each table. `late` is there for targets with windows.
    """

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RowChange, 0))
    targets: dict[str, dict[str, int]] = field(default_factory=dict)
    rejects: dict[str, int] = field(default_factory=lambda: {"before": 0, "after": 0})
    samples: list[dict[str, Any]] = field(default_factory=list)
    late: dict[str, int] = field(default_factory=dict)

    def add(self, table: str, found: dict[str, Any]) -> None:
        """Adds the changes of one more batch to one target."""
        counts = self.targets.setdefault(table, dict.fromkeys(RowChange, 0))
        for name in RowChange:
            self.counts[name] += found[name]
            counts[name] += found[name]
        for sample in found["samples"]:
            known = [kept for kept in self.samples if (kept["target"], kept["kind"]) == (table, sample["kind"])]
            if len(known) < PREVIEW_SAMPLES:
                self.samples.append({"target": table} | sample)

    def add_rejects(self, rejects: dict[str, int]) -> None:
        """Counts the rejects of one more batch."""
        for name, value in rejects.items():
            self.rejects[name] += value

    def add_late(self, before: int, after: int) -> None:
        """Counts the late rows of one more batch."""
        self.late = {"before": self.late.get("before", 0) + before, "after": self.late.get("after", 0) + after}

    def document(self) -> dict[str, Any]:
        """Returns the whole difference as JSON."""
        late = {"late": self.late} if self.late else {}
        return {**self.counts, "targets": self.targets, "rejects": self.rejects, **late, "samples": self.samples}


def preview(
    at: Context,
    engine: Engine,
    folder: PipelineFolder,
    request_id: int,
    caller: Caller,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Difference, Decision]:
    """Returns the difference that the request would make, and the last decision: Idle if the preview was completed.

    Nothing is committed: the ledger refuses a preview's commit.
    """
    require_results_here(folder.pipeline)
    found = Difference()
    try:
        while True:
            planned = plan_request(at.conn, at.broker, folder, request_id, caller)
            if not isinstance(planned.decision, Start | Resume) or planned.batch_id is None:
                _require_whole(at, folder.pipeline.name, request_id, planned.decision)
                return found, planned.decision
            say(Activity(planned.batch_id, READING))
            attempt = stage(at, engine, folder, planned.batch_id, caller, whole=True)
            say(Activity(planned.batch_id, VALIDATING))
            validate(at, folder, attempt)
            say(Activity(planned.batch_id, COMPARING))
            _compare(at, folder.pipeline, attempt, found)
            with transaction(at.conn, PLANNER) as cur:
                give_up(cur, planned.batch_id, NEVER_COMMITTED)
            drop_staging(at, attempt)
    finally:
        _end(at, request_id)


def _require_whole(at: Context, name: str, request_id: int, decision: Decision) -> None:
    """Refuses the difference of a part of the request, for example after a pause."""
    if isinstance(decision, Idle) and not is_complete(at.conn, request_id):
        raise Refusal(f"{name}: {decision.reason}", next_command=f"lockstep unpause {name}")


def _compare(at: Context, pipeline: Pipeline, attempt: AttemptId, found: Difference) -> None:
    in_lake = open_tables(at.conn, pipeline)
    with TemporaryDirectory(prefix="lockstep-") as spool:
        there = bring_offsets(at.conn, pipeline, in_lake, attempt, Path(spool))
        with transaction(at.conn, COMMITTER, lock_seconds=PREVIEW_LOCK_SECONDS) as cur:
            batch = attempts.lock_batch(cur, attempt.batch_id)
            attempts.require_newest(cur, attempt)
            ledger.require_validated(cur, attempt)
            rows = require_staged(cur, attempt).rows
            pipeline = copy_offsets(cur, pipeline, in_lake, there)
            for place, target in enumerate(pipeline.targets):
                targets.keep_before(cur, target, attempt, place, pipeline.event_time)
            rejects = targets.rejects_before_and_after(cur, attempt)
            late = targets.late_rows(cur, attempt) if pipeline.windows else 0
            publish_rows(cur, pipeline, attempt, batch.lane, rows)
            found.add_rejects(rejects)
            if pipeline.windows:
                found.add_late(late, targets.late_rows(cur, attempt))
            for place, target in enumerate(pipeline.targets):
                changes = targets.difference(cur, target, attempt, PREVIEW_SAMPLES, place, pipeline.event_time)
                found.add(target.table, changes)
            reach("preview.compared")
            at.conn.rollback()


def _end(at: Context, request_id: int) -> None:
    """Closes the rest of a preview. If that fails, `reap` does it when the lease is over."""
    with suppress(Refusal), transaction(at.conn, PLANNER) as cur:
        for batch_id in requests.unfinished_of_request(cur, request_id):
            give_up(cur, batch_id, NEVER_COMMITTED)
        requests.close_request(cur, request_id)
