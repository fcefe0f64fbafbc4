"""Runs the five steps one after another, as the command line calls them, in the lane of the planned batch."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import PLANNER, transaction
from lockstep.adapters.postgres_errors import best_effort
from lockstep.core.errors import CoverageMoved, LockTimeout, Superseded
from lockstep.core.pipeline.stores import require_address
from lockstep.core.planning.activity import COMMITTING, READING, VALIDATING, Activity
from lockstep.core.planning.decisions import Busy, Resume, Start
from lockstep.ledger.batch import attempts
from lockstep.steps.attempt.judge import begin_judge
from lockstep.steps.batch.announce import announce
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.outcome import complete_report
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.requests.plan_request import plan_request
from lockstep.steps.windows.emit import Emission

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.core.engine import Engine
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.decisions import Caller, Decision
    from lockstep.steps.context import Context

SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(slots=True)
class RunReport:
    """The outcome of one run: the decision, the batch as the ledger has it, and the seconds of each step.

    `changes` is how many changes the batch announced, by the table of each feed. `emission` says which windows were shown
    behind it. `windows` has, by table, how many shown windows the batch changed, and how many rows came too late.
    """

    pipeline: str
    decision: Decision
    batch_id: int | None = None
    superseded: str | None = None
    ranges: list[Any] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    emission: Emission = field(default_factory=Emission)
    windows: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def went_on(self) -> bool:
        """Returns True if there was a batch to do. There may then be more."""
        return isinstance(self.decision, Start | Resume)


def run(
    at: Context,
    engine: Engine,
    folder: PipelineFolder,
    caller: Caller,
    say: Callable[[str], None] = lambda _: None,
    request_id: int | None = None,
) -> RunReport:
    """Plans one batch, of the live lane or of a request.

    If there is one, it stages, validates, commits and announces it. A batch that another run has done is no failure. An
    interrupt frees the batch and leaves it for the next run.
    """
    require_address(folder.pipeline.name, folder.pipeline.store, at.stores)
    seconds: dict[str, float] = {}
    say("planning")
    with _timed(seconds, "plan"):
        if request_id is None:
            planned = plan(at.conn, at.broker, folder, caller, datetime.now(UTC))
        else:
            planned = plan_request(at.conn, at.broker, folder, request_id, caller)
    report = RunReport(folder.pipeline.name, planned.decision, planned.batch_id, seconds=seconds)
    if report.went_on and planned.batch_id is not None:
        try:
            _work(at, engine, folder, planned.batch_id, caller, seconds, say)
        except (Superseded, LockTimeout, CoverageMoved) as answer:
            report.superseded = str(answer)
        except BaseException:
            _let_go(at, planned.batch_id, caller)
            raise
    return complete_report(at, folder.pipeline, report)


def until_idle(
    at: Context,
    engine: Engine,
    folder: PipelineFolder,
    caller: Caller,
    wait: float,
    say: Callable[[str], None] = lambda _: None,
    request_id: int | None = None,
) -> Iterator[RunReport]:
    """Runs batch after batch, live or a request's. Yields the report of each, and a last one with the reason to stop.

    Waits at most `wait` seconds while another run holds a batch.
    """
    busy_until = time.monotonic() + wait
    while True:
        report = run(at, engine, folder, caller, say, request_id)
        if report.went_on and not report.superseded:
            yield report
            busy_until = time.monotonic() + wait
            continue
        match report.decision:
            case Busy() | Start() | Resume() if time.monotonic() <= busy_until:
                time.sleep(SECONDS_BETWEEN_LOOKS)
            case _:
                yield report
                return


def _work(
    at: Context,
    engine: Engine,
    folder: PipelineFolder,
    batch_id: int,
    caller: Caller,
    seconds: dict[str, float],
    say: Callable[[str], None],
) -> None:
    begin_judge(folder)
    say(Activity(batch_id, READING))
    with _timed(seconds, "stage"):
        attempt = stage(at, engine, folder, batch_id, caller)
    say(Activity(batch_id, VALIDATING))
    with _timed(seconds, "validate"):
        validate(at, folder, attempt)
    say(Activity(batch_id, COMMITTING))
    with _timed(seconds, "commit"):
        commit(at, folder, attempt)
    announce(at, folder.pipeline, attempt)


def _let_go(at: Context, batch_id: int, caller: Caller) -> None:
    with best_effort(), transaction(at.conn, PLANNER) as cur:
        attempts.free_batch_lease(cur, batch_id, caller.owner)


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    begin = time.perf_counter()
    try:
        yield
    finally:
        seconds[step] = round(time.perf_counter() - begin, 3)
