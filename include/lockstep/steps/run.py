"""Runs the five steps one after another, as the command line calls them, in the lane of the planned batch."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg2

from lockstep.adapters.postgres import PLANNER, READER, transaction
from lockstep.core.decisions import Busy, Resume, Start
from lockstep.core.errors import CoverageMoved, LockTimeout, Refusal, Superseded
from lockstep.core.stores import require_address
from lockstep.ledger import attempts
from lockstep.ledger import commit as ledger
from lockstep.steps.announce import announce
from lockstep.steps.commit import commit
from lockstep.steps.plan import plan
from lockstep.steps.plan_request import plan_request
from lockstep.steps.stage import stage
from lockstep.steps.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.core.decisions import Caller, Decision
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.staging import Engine
    from lockstep.steps.surroundings import Surroundings

SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(slots=True)
class Report:
    """The outcome of one run: the decision, the batch as the ledger has it, and the seconds of each step."""

    pipeline: str
    decision: Decision
    batch_id: int | None = None
    superseded: str | None = None
    ranges: list[Any] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def went_on(self) -> bool:
        """Returns True if there was a batch to do. There may then be more."""
        return isinstance(self.decision, Start | Resume)


def run(
    at: Surroundings,
    engine: Engine,
    folder: PipelineFolder,
    caller: Caller,
    say: Callable[[str], None] = lambda _: None,
    request_id: int | None = None,
) -> Report:
    """Plans one batch, of the live lane or of a request.

    If there is one, it stages, validates, commits and announces it. A batch that another run has done is no failure. An
    interrupt frees the batch and leaves it for the next run.
    """
    require_address(folder.pipeline.name, folder.pipeline.store, at.stores)
    seconds: dict[str, float] = {}
    with _timed(seconds, "plan"):
        if request_id is None:
            planned = plan(at.conn, at.broker, folder, caller, datetime.now(UTC))
        else:
            planned = plan_request(at.conn, at.broker, folder, request_id, caller)
    report = Report(folder.pipeline.name, planned.decision, planned.batch_id, seconds=seconds)
    if report.went_on and planned.batch_id is not None:
        try:
            _work(at, engine, folder, planned.batch_id, caller, seconds, say)
        except (Superseded, LockTimeout, CoverageMoved) as answer:
            report.superseded = str(answer)
        except BaseException:
            _let_go(at, planned.batch_id, caller)
            raise
    if planned.batch_id is not None:
        with transaction(at.conn, READER) as cur:
            report.ranges = ledger.committed_ranges(cur, planned.batch_id)
    return report


def until_idle(
    at: Surroundings,
    engine: Engine,
    folder: PipelineFolder,
    caller: Caller,
    wait: float,
    say: Callable[[str], None] = lambda _: None,
    request_id: int | None = None,
) -> Iterator[Report]:
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
    at: Surroundings,
    engine: Engine,
    folder: PipelineFolder,
    batch_id: int,
    caller: Caller,
    seconds: dict[str, float],
    say: Callable[[str], None],
) -> None:
    say(f"batch {batch_id}: reading")
    with _timed(seconds, "stage"):
        attempt = stage(at, engine, folder, batch_id, caller)
    say(f"batch {batch_id}: validating")
    with _timed(seconds, "validate"):
        validate(at, folder, attempt)
    say(f"batch {batch_id}: committing")
    with _timed(seconds, "commit"):
        commit(at, folder, attempt)
    announce(at, folder.pipeline, attempt)


def _let_go(at: Surroundings, batch_id: int, caller: Caller) -> None:
    with suppress(Refusal, psycopg2.Error), transaction(at.conn, PLANNER) as cur:
        attempts.free_batch_lease(cur, batch_id, caller.owner)


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    begin = time.perf_counter()
    try:
        yield
    finally:
        seconds[step] = round(time.perf_counter() - begin, 3)
