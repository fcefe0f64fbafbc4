"""Previews a fill or replay: stages and publishes it, computes the difference, and rolls everything back."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import COMMITTER, PLANNER, transaction
from lockstep.core.decisions import Idle, Resume, Start
from lockstep.core.errors import Refusal
from lockstep.faults import reach
from lockstep.ledger import attempts, requests
from lockstep.ledger import commit as ledger
from lockstep.ledger.contents import require_staged
from lockstep.steps.announce import drop_staging
from lockstep.steps.commit import publish_rows
from lockstep.steps.plan_request import give_up, plan_request
from lockstep.steps.requests import is_complete
from lockstep.steps.stage import stage
from lockstep.steps.validate import validate
from lockstep.targets import difference as targets

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.decisions import Caller, Decision
    from lockstep.core.definition import Pipeline
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.staging import AttemptId, Engine
    from lockstep.steps.surroundings import Surroundings

NEVER = "a preview is never committed"
SAMPLES = 10
LOCK_SECONDS = 60
COUNTS = ("added", "changed", "removed", "unchanged")


@dataclass(slots=True)
class Difference:
    """The change in rows of all targets and in rejects. `samples` are the first few rows of each target and kind.

    `targets` has the counts of each table.
    """

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    targets: dict[str, dict[str, int]] = field(default_factory=dict)
    rejects: dict[str, int] = field(default_factory=lambda: {"before": 0, "after": 0})
    samples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, table: str, found: dict[str, Any]) -> None:
        """Adds the changes of one more batch to one target."""
        counts = self.targets.setdefault(table, dict.fromkeys(COUNTS, 0))
        for name in COUNTS:
            self.counts[name] += found[name]
            counts[name] += found[name]
        for sample in found["samples"]:
            known = [kept for kept in self.samples if (kept["target"], kept["kind"]) == (table, sample["kind"])]
            if len(known) < SAMPLES:
                self.samples.append({"target": table} | sample)

    def add_rejects(self, rejects: dict[str, int]) -> None:
        """Counts the rejects of one more batch."""
        for name, value in rejects.items():
            self.rejects[name] += value

    def document(self) -> dict[str, Any]:
        """Returns the whole difference as JSON."""
        return {**self.counts, "targets": self.targets, "rejects": self.rejects, "samples": self.samples}


def preview(
    at: Surroundings,
    engine: Engine,
    folder: PipelineFolder,
    request_id: int,
    caller: Caller,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Difference, Decision]:
    """Returns the difference that the request would make, and the last decision: Idle if the preview was completed.

    Nothing is committed: the ledger refuses a preview's commit.
    """
    if folder.pipeline.store is not None:
        raise Refusal(
            f"{folder.pipeline.name}: a preview compares the rows within one transaction of the ledger's database, and these "
            f"results live in {folder.pipeline.store}: what a replay would change there cannot be shown beforehand",
            next_command=f"lockstep rejects {folder.pipeline.name}, lockstep verify {folder.pipeline.name}",
        )
    found = Difference()
    try:
        while True:
            planned = plan_request(at.conn, at.broker, folder, request_id, caller)
            if not isinstance(planned.decision, Start | Resume) or planned.batch_id is None:
                _require_whole(at, folder.pipeline.name, request_id, planned.decision)
                return found, planned.decision
            say(f"batch {planned.batch_id}: reading")
            attempt = stage(at, engine, folder, planned.batch_id, caller, whole=True)
            say(f"batch {planned.batch_id}: validating")
            validate(at, folder, attempt)
            say(f"batch {planned.batch_id}: comparing")
            _compare(at, folder.pipeline, attempt, found)
            with transaction(at.conn, PLANNER) as cur:
                give_up(cur, planned.batch_id, NEVER)
            drop_staging(at, attempt)
    finally:
        _end(at, request_id)


def _require_whole(at: Surroundings, name: str, request_id: int, decision: Decision) -> None:
    """Refuses the difference of a part of the request, for example after a pause."""
    if isinstance(decision, Idle) and not is_complete(at.conn, request_id):
        raise Refusal(f"{name}: {decision.reason}", next_command=f"lockstep unpause {name}")


def _compare(at: Surroundings, pipeline: Pipeline, attempt: AttemptId, found: Difference) -> None:
    with transaction(at.conn, COMMITTER, lock_seconds=LOCK_SECONDS) as cur:
        batch = attempts.lock_batch(cur, attempt.batch_id)
        attempts.require_newest(cur, attempt)
        ledger.require_validated(cur, attempt)
        rows = require_staged(cur, attempt).rows
        for place, target in enumerate(pipeline.targets):
            targets.keep_before(cur, target, attempt, place)
        rejects = targets.rejects(cur, attempt)
        publish_rows(cur, pipeline, attempt, batch.lane, rows)
        found.add_rejects(rejects)
        for place, target in enumerate(pipeline.targets):
            found.add(target.table, targets.difference(cur, target, attempt, SAMPLES, place))
        reach("preview.compared")
        at.conn.rollback()


def _end(at: Surroundings, request_id: int) -> None:
    """Closes the rest of a preview. If that fails, `reap` does it when the lease is over."""
    with suppress(Refusal), transaction(at.conn, PLANNER) as cur:
        for batch_id in requests.unfinished_of(cur, request_id):
            give_up(cur, batch_id, NEVER)
        requests.close_request(cur, request_id)
