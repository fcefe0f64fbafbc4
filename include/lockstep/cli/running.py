"""Defines `plan` and `run`: the live lane on the command line."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from lockstep.adapters.folders import load
from lockstep.adapters.processes import this_owner
from lockstep.cli import output
from lockstep.cli.exits import Exit
from lockstep.cli.options import Name
from lockstep.cli.output import AsJson
from lockstep.cli.surroundings import engine_for, surroundings
from lockstep.core.decisions import Blocked, Busy, Caller, Idle, Start
from lockstep.core.errors import NeedsDecision
from lockstep.core.stores import require_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.core.decisions import Decision
    from lockstep.steps.run import Report

Key = Annotated[str | None, typer.Option(help="Makes the call repeatable: one key is one batch.")]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Resume a batch although its holder seems alive.")]
Retry = Annotated[bool, typer.Option("--retry", help="Try a batch again that failed three times by data or code.")]
STEPS = ("plan", "stage", "validate", "commit")


def plan(
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what the next batch would be.")] = False,
    key: Key = None,
    take_over: TakeOver = False,
    retry: Retry = False,
    as_json: AsJson = False,
) -> None:
    """Plan the next live batch and record it. `run` then does it."""
    from lockstep.steps.plan import plan as plan_step
    from lockstep.steps.warn import known_partitions, warn

    folder, at = load(name), surroundings()
    require_address(name, folder.pipeline.store, at.stores)
    known = known_partitions(at.conn, folder.pipeline)
    caller = Caller(this_owner(), key, take_over, retry)
    planned = plan_step(at.conn, at.broker, folder, caller, datetime.now(UTC), dry_run=dry_run)
    ranges = [asdict(item.offsets) for item in planned.decision.ranges] if isinstance(planned.decision, Start) else []
    document = {
        "pipeline": name,
        **decision_document(planned.decision),
        "batch": None if dry_run and isinstance(planned.decision, Start) else planned.batch_id,
        "dry_run": dry_run,
        "ranges": [{**item.pop("topic_partition"), **item} for item in ranges],
        "warnings": warn(at.conn, at.broker, folder.pipeline, known, datetime.now(UTC)),
    }
    _finish(planned.decision, document, as_json=as_json)


def run(
    name: Name,
    key: Key = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Run batch after batch until none is left.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait while somebody else holds the batch.", min=0)] = 60,
    take_over: TakeOver = False,
    retry: Retry = False,
    as_json: AsJson = False,
) -> None:
    """Plan, stage, validate, commit and announce, without Airflow."""
    if key is not None and until_idle:
        raise typer.BadParameter("one key is one batch: it does not go with --until-idle", param_hint="--key")
    from lockstep.steps import run as steps
    from lockstep.steps.warn import known_partitions, warn

    folder, at = load(name), surroundings()
    known = known_partitions(at.conn, folder.pipeline)
    engine = engine_for(folder, at)
    caller = Caller(this_owner(), key, take_over, retry)
    with progress() as say:
        if until_idle:
            reports = list(steps.until_idle(at, engine, folder, caller, wait, say))
        else:
            reports = [steps.run(at, engine, folder, caller, say)]
    last = reports[-1]
    document = report_document(last)
    if until_idle:
        worked = [report for report in reports if report.went_on and not report.superseded]
        document = {
            "pipeline": name,
            **decision_document(last.decision),
            "batches": [report_document(report) for report in worked],
        }
    document["warnings"] = warn(at.conn, at.broker, folder.pipeline, known, datetime.now(UTC))
    _finish(last.decision, document, as_json=as_json)


def report_document(report: Report) -> dict[str, Any]:
    """Returns one batch as JSON."""
    ranges = [row._asdict() for row in report.ranges]
    lane, state = (ranges[0]["lane"], ranges[0]["state"]) if ranges else (None, None)
    for row in ranges:
        del row["lane"], row["state"]
    return {
        "pipeline": report.pipeline,
        **decision_document(report.decision),
        **({"superseded": report.superseded} if report.superseded else {}),
        "batch": report.batch_id,
        "lane": lane,
        "state": state,
        "ranges": ranges,
        "rows_written": sum(row["written"] or 0 for row in ranges),
        "rows_rejected": sum(row["rejected"] or 0 for row in ranges),
        "seconds": {step: report.seconds.get(step) for step in STEPS},
    }


def decision_document(decision: Decision) -> dict[str, Any]:
    """Returns plan's answer as JSON."""
    document: dict[str, Any] = {"decision": type(decision).__name__.lower()}
    if isinstance(decision, Idle | Busy | Blocked):
        document["reason"] = decision.reason
    if isinstance(decision, Blocked):
        document["next"] = decision.next_command
    return document


def _finish(decision: Decision, document: dict[str, Any], *, as_json: bool) -> None:
    """Prints the result. Raises a refusal for Blocked, with the reason and the next command on its one line."""
    if isinstance(decision, Blocked):
        if as_json:
            output.print_json(document)
        end_blocked(decision, as_json=as_json)
    if as_json:
        output.print_json(document)
    else:
        output.print_run(document)
        output.say_warnings(document["warnings"])


def end_blocked(decision: Blocked, *, as_json: bool) -> NoReturn:
    """Ends the command with the exit code of a blocked pipeline, and for people with the reason and next command."""
    if as_json:
        raise typer.Exit(Exit.BLOCKED)
    raise NeedsDecision(decision.reason, next_command=decision.next_command)


@contextmanager
def progress(first: str = "planning") -> Iterator[Callable[[str], None]]:
    """Shows the current step, on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(first) as status:
        yield status.update
