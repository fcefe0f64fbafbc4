"""Defines `replay` and `fill`, which read offsets behind the position again, or for the first time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from lockstep.adapters.folders import load
from lockstep.adapters.processes import this_owner
from lockstep.cli.options import (
    BatchOption,
    From,
    MaybeReason,
    Name,
    OnePartition,
    Preview,
    Request,
    Until,
    Wait,
    bound,
)
from lockstep.cli.output import AsJson, cell, print_batch, print_json, print_ranges, range_document, say, say_table
from lockstep.cli.running import Retry, TakeOver, decision_document, end_blocked, progress, report_document
from lockstep.cli.surroundings import engine_for, person, surroundings
from lockstep.core.decisions import Blocked, Caller, Idle

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.core.decisions import Decision
    from lockstep.core.definition import Pipeline
    from lockstep.core.folder import PipelineFolder
    from lockstep.steps.requests import Asked, Wanted
    from lockstep.steps.run import Report
    from lockstep.steps.surroundings import Surroundings


def replay(
    name: Name,
    from_: From = None,
    until: Until = None,
    partition: OnePartition = None,
    batch: BatchOption = None,
    request: Request = None,
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
    wanted = None if request else _wanted("replay", from_, until, partition, preview=preview)
    how = How(Caller(this_owner(), take_over=take_over, retry=retry), wait, as_json)
    do(name, "replay", how, lambda folder, at: _asked(folder, at, "replay", wanted or request, reason), preview=preview)


def fill(
    name: Name,
    from_: From = None,
    until: Until = None,
    partition: OnePartition = None,
    request: Request = None,
    preview: Preview = False,
    reason: MaybeReason = None,
    wait: Wait = 60,
    take_over: TakeOver = False,
    retry: Retry = False,
    as_json: AsJson = False,
) -> None:
    """Read offsets that were skipped, or lie before the start, while the live lane continues."""
    wanted = None if request else _wanted("fill", from_, until, partition, preview=preview)
    how = How(Caller(this_owner(), take_over=take_over, retry=retry), wait, as_json)
    do(name, "fill", how, lambda folder, at: _asked(folder, at, "fill", wanted or request, reason), preview=preview)


@dataclass(frozen=True, slots=True)
class How:
    """The way to run a request's batches: the caller, the longest wait for others, and the reports."""

    caller: Caller
    wait: float
    as_json: bool


@dataclass(slots=True)
class _HowFar:
    """The report of each step, with the share of the offsets that is done."""

    tell: Callable[[str], None]
    total: int
    so_far: int = 0

    def __call__(self, step: str) -> None:
        self.tell(f"{self.so_far} of {self.total} offsets, {step}")

    def done(self, report: Report) -> None:
        self.so_far += sum(row.until_offset - row.from_offset for row in report.ranges)


def do(
    name: str,
    lane: str,
    how: How,
    asks: Callable[[PipelineFolder, Surroundings], Asked],
    *,
    preview: bool = False,
    adds: Callable[[Surroundings], dict[str, Any]] = lambda _: {},
) -> dict[str, Any]:
    """Records the request and says what it means. Does or previews its batches, and prints the result.

    `adds` is called at the end for further parts of the answer.
    """
    folder, at = load(name), surroundings()
    asked = asks(folder, at)
    document: dict[str, Any] = {
        "pipeline": name,
        "lane": lane,
        "request": asked.request_id,
        "goes_on": asked.goes_on,
        "preview": preview,
        "means": _means(folder.pipeline, lane),
        "windows": [range_document(item) for item in asked.windows],
    }
    if not how.as_json:
        _say_beginning(document)
    if asked.request_id is None:
        idle = Idle("nothing in these bounds is to be done")
        document |= decision_document(idle) | _batches([]) | adds(at)
        _finish(idle, document, how)
        return document
    with progress() as tell:
        far = _HowFar(tell, sum(item.offsets.span for item in asked.windows))
        if preview:
            from lockstep.steps.preview import preview as rehearse

            found, decision = rehearse(at, engine_for(folder, at), folder, asked.request_id, how.caller, far)
            document |= {"difference": found.document()}
        else:
            from lockstep.steps.run import until_idle

            engine = engine_for(folder, at)
            reports = []
            for report in until_idle(at, engine, folder, how.caller, how.wait, far, asked.request_id):
                far.done(report)
                reports.append(report)
            decision = reports[-1].decision
            document |= _batches(reports)
    document |= _outcome(at, asked.request_id, decision) | adds(at)
    _finish(decision, document, how)
    return document


def _wanted(lane: str, begin: str | None, end: str | None, partition: int | None, *, preview: bool) -> Wanted:
    from lockstep.steps.requests import Wanted

    if begin is None and end is None and partition is None and lane == "replay":
        raise typer.BadParameter("what is to be replayed? --from, --until, --batch or --partition", param_hint="--from")
    return Wanted(
        lane,
        bound(begin, "--from") if begin else None,
        bound(end, "--until") if end else None,
        partition,
        preview,
    )


def _asked(folder: PipelineFolder, at: Surroundings, lane: str, what: Wanted | int | None, reason: str | None) -> Asked:
    from lockstep.steps import requests

    if isinstance(what, requests.Wanted):
        return requests.ask(at.conn, at.broker, folder, what, person(reason), datetime.now(UTC))
    return requests.go_on(at.conn, folder.pipeline, lane, what or 0)


def _outcome(at: Surroundings, request_id: int, decision: Decision) -> dict[str, Any]:
    from lockstep.steps.requests import is_complete

    if isinstance(decision, Idle) and is_complete(at.conn, request_id):
        return {"decision": "done", "reason": decision.reason}
    return decision_document(decision)


def _batches(reports: list[Report]) -> dict[str, Any]:
    worked = [report_document(report) for report in reports if report.went_on and not report.superseded]
    return {
        "batches": worked,
        "rows_written": sum(batch["rows_written"] for batch in worked),
        "rows_rejected": sum(batch["rows_rejected"] for batch in worked),
    }


def _means(pipeline: Pipeline, lane: str) -> str:
    """Says what a fill is, or what a replay does to written rows. Names each target if there are several."""
    from lockstep.targets import FILL_MEANS, replay_means

    if lane == "fill":
        return FILL_MEANS
    if len(pipeline.targets) == 1:
        return replay_means(pipeline.first)
    return "; ".join(f"{target.table}: {replay_means(target)}" for target in pipeline.targets)


def _say_beginning(document: dict[str, Any]) -> None:
    if document["request"] is not None:
        verb = "goes on with" if document["goes_on"] else "is"
        say(f"{document['lane']} of {document['pipeline']} {verb} request {document['request']}: {document['means']}")
        print_ranges(document["windows"])


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
        say(", ".join(f"{difference[kind]} {kind}" for kind in ("added", "changed", "removed", "unchanged")))
        if len(difference["targets"]) > 1:
            for table, counts in difference["targets"].items():
                say(f"  {table}: " + ", ".join(f"{number} {kind}" for kind, number in counts.items()))
        before, after = difference["rejects"]["before"], difference["rejects"]["after"]
        say(f"rejects: {before} before, {after} after")
        if difference["samples"]:
            rows = [[s["kind"], cell(s["before"]), cell(s["after"])] for s in difference["samples"]]
            say_table(["", "before", "after"], rows)
        say("nothing was changed")
    say(f"{document['pipeline']}: {document['decision']}: {document['reason']}")
