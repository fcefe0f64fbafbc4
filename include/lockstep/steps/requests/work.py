"""Runs the Spark half of a history run in one process: previews its requests, or does them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PLANNER, transaction
from lockstep.core.changes.person import Person
from lockstep.core.planning.activity import Activity
from lockstep.core.planning.decisions import Blocked, Decision, Idle
from lockstep.core.planning.requests import RunOutcome
from lockstep.core.states import WorkState
from lockstep.ledger.changes import history
from lockstep.steps.batch.run import until_idle
from lockstep.steps.inspect.archived_records import read_held
from lockstep.steps.requests.history import run_requests
from lockstep.steps.requests.preview import preview
from lockstep.steps.requests.requests import is_complete, require_todays_logs, written_down
from lockstep.steps.windows.admit import open_shown_admission

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.engine import Engine
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.decisions import Caller
    from lockstep.core.planning.requests import Request
    from lockstep.steps.context import Context

WORK_WAIT_SECONDS = 60.0  # to wait for others on the same offsets. After that, the next try of the task waits.


def work(
    at: Context, engine: Engine, folder: PipelineFolder, key: str, caller: Caller, say: Callable[[str], None]
) -> RunOutcome:
    """Does the open requests of a run one after another, batch by batch.

    The first request that is not completed gives the outcome.
    """

    def say_of_batches(step: str) -> None:
        if isinstance(step, Activity):  # a plan that waits for others is made twice a second
            say(step)

    for asked in run_requests(at.conn, folder.pipeline.name, _run(key), preview=False):
        if asked.is_closed:
            continue
        for report in until_idle(at, engine, folder, caller, WORK_WAIT_SECONDS, say_of_batches, asked.request_id):
            last = report
            if report.went_on and not report.superseded:
                say(f"batch {report.batch_id} is committed")
        if not is_complete(at.conn, asked.request_id):
            return _outcome(last.decision, last.superseded)
    return RunOutcome(WorkState.DONE, f"{folder.pipeline.name}: everything that was asked for is done")


def preview_requests(
    at: Context, engine: Engine, folder: PipelineFolder, key: str, caller: Caller, say: Callable[[str], None]
) -> RunOutcome:
    """Computes and records the difference of each preview of a run. Skips those that an earlier try has computed."""
    for asked in run_requests(at.conn, folder.pipeline.name, _run(key), preview=True):
        if asked.rehearsal:
            continue
        request_id = _once_more(at, folder, asked, _run(key)) if asked.is_closed else asked.request_id
        found, decision = preview(at, engine, folder, request_id, caller, say)
        if not isinstance(decision, Idle):
            return _outcome(decision, None)
        with transaction(at.conn, PLANNER) as cur:
            history.insert_rehearsal(cur, request_id, folder.content_hash(), found.document())
    return RunOutcome(WorkState.DONE, f"{folder.pipeline.name}: the difference is known; nothing was changed")


def _once_more(at: Context, folder: PipelineFolder, asked: Request, person: Person) -> int:
    """Opens a new preview of the same offsets, because a preview ends with the process that made it."""
    view = read_held(at.conn, at.broker, folder.pipeline)
    require_todays_logs(at.conn, at.broker, folder.pipeline, view, asked.windows)
    asker = replace(person, who=asked.who, why=asked.why)
    opened = open_shown_admission(at.conn, folder.pipeline.name, asked, asker, preview=True) or written_down(
        at.conn, folder.pipeline, asked.lane, asked.windows, asker, view, preview=True
    )
    return opened.request_id if opened else asked.request_id


def _run(key: str) -> Person:
    return Person("spark", "works for a run", key)


def _outcome(decision: Decision, superseded: str | None) -> RunOutcome:
    if isinstance(decision, Blocked):
        return RunOutcome(WorkState.BLOCKED, decision.reason, decision.next_command)
    return RunOutcome(
        WorkState.WAITS, superseded or getattr(decision, "reason", "") or "somebody else works on these offsets"
    )
