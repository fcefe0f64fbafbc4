"""Runs the Spark half of a history run in one process: previews its requests, or does them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import PLANNER, transaction
from lockstep.core.decisions import Blocked, Decision, Idle
from lockstep.core.history import Outcome
from lockstep.core.person import Person
from lockstep.ledger import history
from lockstep.steps.history import called
from lockstep.steps.preview import preview
from lockstep.steps.requests import is_complete, written_down
from lockstep.steps.run import until_idle

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.decisions import Caller
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.staging import Engine
    from lockstep.steps.history import Called
    from lockstep.steps.surroundings import Surroundings

SECONDS = 60.0  # to wait for others on the same offsets. After that, the next try of the task waits.


def work(
    at: Surroundings, engine: Engine, folder: PipelineFolder, key: str, caller: Caller, say: Callable[[str], None]
) -> Outcome:
    """Does the open requests of a run one after another, batch by batch.

    The first request that is not completed gives the outcome.
    """
    for asked in called(at.conn, folder.pipeline.name, _run(key), preview=False):
        if asked.is_closed:
            continue
        for report in until_idle(at, engine, folder, caller, SECONDS, say, asked.request_id):
            last = report
            if report.went_on and not report.superseded:
                say(f"batch {report.batch_id} is committed")
        if not is_complete(at.conn, asked.request_id):
            return _outcome(last.decision, last.superseded)
    return Outcome("done", f"{folder.pipeline.name}: everything that was asked for is done")


def rehearse(
    at: Surroundings, engine: Engine, folder: PipelineFolder, key: str, caller: Caller, say: Callable[[str], None]
) -> Outcome:
    """Computes and records the difference of each preview of a run. Skips those that an earlier try has computed."""
    for asked in called(at.conn, folder.pipeline.name, _run(key), preview=True):
        if asked.difference is not None:
            continue
        request_id = _once_more(at, folder, asked) if asked.is_closed else asked.request_id
        found, decision = preview(at, engine, folder, request_id, caller, say)
        if not isinstance(decision, Idle):
            return _outcome(decision, None)
        with transaction(at.conn, PLANNER) as cur:
            history.insert_rehearsal(cur, request_id, folder.content_hash(), found.document())
    return Outcome("done", f"{folder.pipeline.name}: the difference is known; nothing was changed")


def _once_more(at: Surroundings, folder: PipelineFolder, asked: Called) -> int:
    """Opens a new preview of the same offsets, because a preview ends with the process that made it."""
    view = at.broker.view(folder.pipeline.topic)
    opened = written_down(at.conn, folder.pipeline, asked.lane, asked.windows, asked.person, view, preview=True)
    return opened.request_id or asked.request_id


def _run(key: str) -> Person:
    return Person("spark", "works for a run", key)


def _outcome(decision: Decision, superseded: str | None) -> Outcome:
    if isinstance(decision, Blocked):
        return Outcome("blocked", decision.reason, decision.next_command)
    return Outcome("waits", superseded or getattr(decision, "reason", "") or "somebody else works on these offsets")
