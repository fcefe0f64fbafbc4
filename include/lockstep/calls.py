"""Runs, plans, replays, verifies and asks for the status of a pipeline in this process, as the commands do.

Each call opens its own connection and closes it again. A refusal is an exception of `lockstep.results`.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.adapters import folders
from lockstep.adapters.processes import this_owner
from lockstep.context import systems
from lockstep.core.errors import NeedsDecision, Refusal
from lockstep.core.pipeline.definition import Pipeline
from lockstep.core.pipeline.stores import require_address
from lockstep.core.planning.bounds import parse_bound
from lockstep.core.planning.decisions import Blocked, Caller, Start, decision_document
from lockstep.core.proof.extent import conclusion, proofs
from lockstep.core.proof.given_up import offsets_of
from lockstep.core.proof.verification import next_step
from lockstep.core.states import Lane
from lockstep.results import (
    BatchResult,
    CheckResult,
    Note,
    PlanResult,
    RunResult,
    StatusResult,
    StreamStatus,
    StretchResult,
    VerifyResult,
    note_of,
)
from lockstep.steps.batch import run as steps
from lockstep.steps.batch.plan import plan
from lockstep.steps.feed.relay_behind import Relays, relay_behind
from lockstep.steps.inspect.status import status
from lockstep.steps.inspect.warn import known_partitions, warn
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests.requests import NewRequest, open_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.decisions import Decision
    from lockstep.steps.batch.run import RunReport
    from lockstep.steps.context import Context

WAIT_SECONDS = 60.0
# A lease knows the process, not the thread: threads of one process take turns.
_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def run_pipeline(
    pipeline: Pipeline | str,
    *,
    until_idle: bool = False,
    key: str | None = None,
    wait: float = WAIT_SECONDS,
    take_over: bool = False,
    retry: bool = False,
) -> RunResult:
    """Plans, stages, validates, commits and announces the next batch, as `lockstep run` does.

    `until_idle` runs batch after batch, and waits at most `wait` seconds for another holder. One `key` is one batch, so
    a call with a key may be repeated. Raises `NeedsDecision` with the next command if the pipeline is blocked.
    """
    if key is not None and until_idle:
        raise Refusal("one key is one batch: key does not go with until_idle")
    folder = _folder(pipeline)
    caller = Caller(this_owner(), key, take_over, retry)
    with _opened(folder, works=True) as at:
        known = known_partitions(at.conn, folder.pipeline)
        reports = _reports(at, folder, caller, wait if until_idle else None)
        relays = relay_behind(at, folder.pipeline, caller.owner)
        found = warn(at.conn, at.broker, folder.pipeline, known, datetime.now(UTC)) + relays.warnings
    return _result(folder.pipeline.name, reports, relays, found)


def replay_pipeline(
    pipeline: Pipeline | str,
    from_: str | None = None,
    until: str | None = None,
    *,
    reason: str,
    partition: int | None = None,
    wait: float = WAIT_SECONDS,
) -> RunResult:
    """Reads covered offsets again under today's code, as `lockstep replay` does. The position stays.

    A bound is `0:1200`, a time or a batch's number. Raises `NeedsDecision` if the pipeline is blocked.
    """
    if from_ is None and until is None and partition is None:
        raise Refusal("what is to be replayed? from_, until or partition")
    folder = _folder(pipeline)
    bounds = parse_bound(from_, "from_") if from_ else None, parse_bound(until, "until") if until else None
    with _opened(folder, works=True) as at:
        wanted, person = NewRequest(Lane.REPLAY, *bounds, partition), systems.typing_person(reason)
        asked = open_request(at.conn, at.broker, folder, wanted, person, datetime.now(UTC))
        if asked is None:
            return RunResult(folder.pipeline.name, "idle", "nothing in these bounds is to be done", ())
        reports = _reports(at, folder, Caller(this_owner()), wait, asked.request_id)
    return _result(folder.pipeline.name, reports, Relays(), [])


def plan_pipeline(pipeline: Pipeline | str) -> PlanResult:
    """Returns the next batch as it would be now. Records nothing, as `lockstep plan --dry-run` does."""
    folder = _folder(pipeline)
    with _opened(folder) as at:
        planned = plan(at.conn, at.broker, folder, Caller(this_owner()), datetime.now(UTC), dry_run=True)
    decision = planned.decision
    offsets = [each.offsets for each in decision.ranges] if isinstance(decision, Start) else []
    places = [(each.topic_partition, each.from_offset, each.until_offset) for each in offsets]
    return PlanResult(
        folder.pipeline.name,
        *_words(decision),
        tuple(StretchResult(where.topic, where.partition, begin, end) for where, begin, end in places),
        Note("blocked", decision.reason, decision.next_command) if isinstance(decision, Blocked) else None,
    )


def pipeline_status(pipeline: Pipeline | str) -> StatusResult:
    """Returns the pipeline's health, and how far each stream is, as `lockstep status` does."""
    folder = _folder(pipeline)
    with _opened(folder) as at:
        found = status(at.conn, at.broker, folder.pipeline, datetime.now(UTC), folder=folder)
    return StatusResult(
        folder.pipeline.name,
        str(found["health"]),
        tuple(note_of(each, "state") for each in found["conditions"]),
        found["lag_records"],
        found["oldest_waiting_seconds"],
        found["complete_through"],
        tuple(found["under_way"]),
        tuple(StreamStatus(**{name: each[name] for name in StreamStatus.__slots__}) for each in found["streams"]),
        tuple(note_of(each, "kind") for each in found["warnings"]),
    )


def verify_pipeline(pipeline: Pipeline | str, *, deep: bool = False) -> VerifyResult:
    """Proves the promises again, as `lockstep verify` does. `deep` reads Kafka and compares each record with its rows."""
    folder = _folder(pipeline)
    with _opened(folder) as at:
        elsewhere, registry = systems.results_elsewhere(folder.pipeline), systems.configured_registry()
        checks = verify(at.conn, at.broker, folder, deep=deep, results=elsewhere, registry=registry)
    proved = proofs([target.table for target in folder.pipeline.targets], checks)
    return VerifyResult(
        folder.pipeline.name,
        all(check.ok for check in checks),
        deep,
        tuple(CheckResult(check.name, check.ok, check.detail) for check in checks),
        conclusion(folder.pipeline.name, proved, checks, given_up=offsets_of(checks).given_up),
        next_step(folder.pipeline.name, checks, deep=deep),
    )


def _folder(pipeline: Pipeline | str) -> PipelineFolder:
    """Returns the pipeline's folder. Refuses a value that is not the one on disk, which a run would take."""
    name = pipeline if isinstance(pipeline, str) else pipeline.name
    folder = folders.load(name)
    if isinstance(pipeline, Pipeline) and folder.pipeline != pipeline:
        raise Refusal(
            f"{name}: this value is not the one in {folders.shown_path(folder.path)}, which a run would take",
            next_command=f"lockstep check {name}",
        )
    return folder


@contextmanager
def _opened(folder: PipelineFolder, *, works: bool = False) -> Iterator[Context]:
    with closing(systems.open_context()) as at:
        if not works:
            yield at
            return
        require_address(folder.pipeline.name, folder.pipeline.store, at.stores)
        with _turns[folder.pipeline.name]:
            yield at


def _reports(
    at: Context, folder: PipelineFolder, caller: Caller, wait: float | None, request: int | None = None
) -> list[RunReport]:
    """Runs one batch, or with `wait` all that there are."""
    engine = systems.engine_for(folder, at)
    try:
        if wait is None:
            return [steps.run(at, engine, folder, caller)]
        return list(steps.until_idle(at, engine, folder, caller, wait, request_id=request))
    except KeyboardInterrupt:
        engine.cancel()
        raise


def _result(name: str, reports: list[RunReport], relays: Relays, found: Iterable[Any]) -> RunResult:
    decision = reports[-1].decision
    if isinstance(decision, Blocked):
        raise NeedsDecision(decision.reason, next_command=decision.next_command)
    worked = [report for report in reports if report.went_on and not report.superseded]
    word, reason = _words(decision)
    return RunResult(
        name,
        word,
        reports[-1].superseded or reason,
        tuple(_batch(report) for report in worked),
        relays.sent,
        tuple(note_of(each, "kind") for each in found),
    )


def _batch(report: RunReport) -> BatchResult:
    rows = [row._asdict() for row in report.ranges]
    stretches = [{name: value for name, value in row.items() if name not in {"lane", "state"}} for row in rows]
    lane, state = (rows[0]["lane"], rows[0]["state"]) if rows else ("", "")
    return BatchResult(
        report.batch_id or 0, str(lane), str(state), tuple(StretchResult(**each) for each in stretches), report.seconds
    )


def _words(decision: Decision) -> tuple[str, str | None]:
    document = decision_document(decision)
    return document["decision"], document.get("reason")
