"""Defines `replay` and `fill`, which read offsets behind the position again, or for the first time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from lockstep.adapters.folders import load
from lockstep.adapters.processes import this_owner
from lockstep.cli.batches.running import Retry, TakeOver, end_blocked, report_document
from lockstep.cli.options import (
    BatchOption,
    From,
    MaybeReason,
    Name,
    OnePartition,
    OneTopic,
    Preview,
    RequestOption,
    Until,
    Wait,
    bound,
)
from lockstep.cli.output import AsJson, print_batch, print_json, print_ranges, say, say_table
from lockstep.cli.progress import counter_of, shown_progress
from lockstep.context.systems import engine_for, open_context, typing_person
from lockstep.core.changes.row_changes import RowChange
from lockstep.core.planning.decisions import Blocked, Caller, Idle, decision_document
from lockstep.core.states import Lane
from lockstep.core.text import cell
from lockstep.steps.inspect.lines import range_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.decisions import Decision
    from lockstep.core.planning.requests import Request
    from lockstep.steps.batch.run import RunReport
    from lockstep.steps.context import Context
    from lockstep.steps.requests.requests import NewRequest


def replay_command(
    name: Name,
    from_: From = None,
    until: Until = None,
    partition: OnePartition = None,
    topic: OneTopic = None,
    batch: BatchOption = None,
    request: RequestOption = None,
    preview: Preview = False,
    reason: MaybeReason = None,
    wait: Wait = 60,
    take_over: TakeOver = False,
    retry: Retry = False,
    as_json: AsJson = False,
) -> None:
    """Read covered offsets again under today's code. Old rows go, new rows come, and the position stays."""
    if batch is not None:
        if from_ or until or request:
            raise typer.BadParameter("a batch is a bound of its own", param_hint="--batch")
        from_ = until = str(batch)
    what = request or _wanted(Lane.REPLAY, from_, until, partition, topic, preview=preview)
    how = How(Caller(this_owner(), take_over=take_over, retry=retry), wait, as_json)
    do(name, Lane.REPLAY, how, partial(_asked, Lane.REPLAY, what, reason), preview=preview)


def fill_command(
    name: Name,
    from_: From = None,
    until: Until = None,
    partition: OnePartition = None,
    topic: OneTopic = None,
    request: RequestOption = None,
    preview: Preview = False,
    reason: MaybeReason = None,
    wait: Wait = 60,
    take_over: TakeOver = False,
    retry: Retry = False,
    as_json: AsJson = False,
) -> None:
    """Read offsets that were skipped, or lie before the start, while the live lane continues."""
    what = request or _wanted(Lane.FILL, from_, until, partition, topic, preview=preview)
    how = How(Caller(this_owner(), take_over=take_over, retry=retry), wait, as_json)
    do(name, Lane.FILL, how, partial(_asked, Lane.FILL, what, reason), preview=preview)


@dataclass(frozen=True, slots=True)
class How:
    """The way to run a request's batches: the caller, the longest wait for others, and the reports."""

    caller: Caller
    wait: float
    as_json: bool


@dataclass(slots=True)
class _HowFar:
    """The share of the offsets that is done, in front of each step."""

    total: int
    so_far: int = 0

    def __call__(self) -> str:
        return f"{self.so_far:,} of {self.total:,} offsets, "

    def done(self, report: RunReport) -> None:
        self.so_far += sum(row.until_offset - row.from_offset for row in report.ranges)


def do(
    name: str,
    lane: Lane,
    how: How,
    asks: Callable[[PipelineFolder, Context], Request | None],
    *,
    preview: bool = False,
    adds: Callable[[Context], dict[str, Any]] = lambda _: {},
) -> dict[str, Any]:
    """Records the request and says what it means. Does or previews its batches, and prints the result.

    `adds` is called at the end for further parts of the answer.
    """
    from lockstep.targets import request_means

    folder, at = load(name), open_context()
    asked = asks(folder, at)
    document: dict[str, Any] = {
        "pipeline": name,
        "lane": lane,
        "request": asked and asked.request_id,
        "goes_on": bool(asked and asked.goes_on),
        "preview": preview,
        "means": request_means(folder.pipeline.targets, lane),
        "windows": [range_document(item) for item in asked.windows] if asked else [],
    }
    ahead = (asked.left or asked.windows) if asked else ()
    if not how.as_json:
        _say_beginning(document, [range_document(item) for item in ahead])
    if asked is None:
        idle = Idle("nothing in these bounds is to be done")
        document |= decision_document(idle) | _batches([]) | adds(at)
        _finish(idle, document, how)
        return document
    far = _HowFar(sum(item.offsets.span for item in ahead))
    engine = engine_for(folder, at)
    again = None if preview else f"lockstep {lane} {name} --request {asked.request_id}"
    with shown_progress(again=again, cancel=engine.cancel, counter=counter_of(at, folder)) as tell:
        tell.prefix = far
        if preview:
            from lockstep.steps.requests.preview import preview as rehearse

            found, decision = rehearse(at, engine, folder, asked.request_id, how.caller, tell)
            document |= {"difference": found.document()}
        else:
            from lockstep.steps.batch.run import until_idle

            reports = []
            for report in until_idle(at, engine, folder, how.caller, how.wait, tell, asked.request_id):
                far.done(report)
                reports.append(report)
            decision = reports[-1].decision
            document |= _batches(reports)
    document |= _outcome(at, asked.request_id, decision) | adds(at)
    _finish(decision, document, how)
    return document


def _wanted(
    lane: Lane, begin: str | None, end: str | None, partition: int | None, topic: str | None, *, preview: bool
) -> NewRequest:
    from lockstep.steps.requests.requests import NewRequest

    if begin is None and end is None and partition is None and topic is None and lane == Lane.REPLAY:
        raise typer.BadParameter("what is to be replayed? --from, --until, --batch or --partition", param_hint="--from")
    bounds = bound(begin, "--from") if begin else None, bound(end, "--until") if end else None
    return NewRequest(lane, *bounds, partition, preview, topic)


def _asked(
    lane: Lane, what: NewRequest | int, reason: str | None, folder: PipelineFolder, at: Context
) -> Request | None:
    from lockstep.steps.requests import requests

    if isinstance(what, requests.NewRequest):
        return requests.open_request(at.conn, at.broker, folder, what, typing_person(reason), datetime.now(UTC))
    return requests.go_on(at.conn, folder.pipeline, lane, what)


def _outcome(at: Context, request_id: int, decision: Decision) -> dict[str, Any]:
    from lockstep.steps.requests.requests import is_complete

    if isinstance(decision, Idle) and is_complete(at.conn, request_id):
        return {"decision": "done", "reason": decision.reason}
    return decision_document(decision)


def _batches(reports: list[RunReport]) -> dict[str, Any]:
    worked = [report_document(report) for report in reports if report.went_on and not report.superseded]
    return {
        "batches": worked,
        "rows_written": sum(batch["rows_written"] for batch in worked),
        "rows_rejected": sum(batch["rows_rejected"] for batch in worked),
    }


def _say_beginning(document: dict[str, Any], left: list[dict[str, Any]]) -> None:
    if document["request"] is not None:
        verb = "goes on with" if document["goes_on"] else "is"
        say(f"{document['lane']} of {document['pipeline']} {verb} request {document['request']}: {document['means']}")
        print_ranges(left)


def _finish(decision: Decision, document: dict[str, Any], how: How) -> None:
    if how.as_json:
        print_json(document)
    if isinstance(decision, Blocked):
        end_blocked(decision, as_json=how.as_json)
    if not how.as_json:
        _say_end(document)


def _say_end(document: dict[str, Any]) -> None:
    for batch in document.get("batches", []):
        print_batch(batch)
    if difference := document.get("difference"):
        say(", ".join(f"{difference[kind]} {kind}" for kind in RowChange))
        if len(difference["targets"]) > 1:
            for table, counts in difference["targets"].items():
                say(f"  {table}: " + ", ".join(f"{number} {kind}" for kind, number in counts.items()))
        for part in ("rejects", "late"):
            if counts := difference.get(part):
                say(f"{part}: {counts['before']} before, {counts['after']} after")
        if rows := [[s["kind"], cell(s["before"]), cell(s["after"])] for s in difference["samples"]]:
            say_table(["", "before", "after"], rows)
        say("nothing was changed")
    if document["preview"] and document["decision"] == "done":
        say(f"{document['pipeline']}: previewed: without --preview, it is done")
    else:
        say(f"{document['pipeline']}: {document['decision']}: {document['reason']}")
