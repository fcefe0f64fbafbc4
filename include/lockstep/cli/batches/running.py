"""Defines `run`: the live lane on the command line."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from lockstep.adapters.folders import load
from lockstep.adapters.processes import this_owner
from lockstep.cli import output
from lockstep.cli.exits import Exit
from lockstep.cli.options import Name
from lockstep.cli.output import AsJson
from lockstep.cli.progress import counter_of, shown_progress
from lockstep.context.systems import engine_for, open_context
from lockstep.core.errors import NeedsDecision
from lockstep.core.pipeline.targets import topics_of
from lockstep.core.planning.decisions import Blocked, Caller, decision_document

if TYPE_CHECKING:
    from lockstep.core.planning.decisions import Decision
    from lockstep.steps.batch.run import RunReport

CallKeyOption = Annotated[str | None, typer.Option(help="Makes the call repeatable: one key is one batch.")]
TakeOver = Annotated[bool, typer.Option("--take-over", help="Resume a batch although its holder seems alive.")]
Retry = Annotated[bool, typer.Option("--retry", help="Try a batch again that failed three times by data or code.")]
EngineOption = Annotated[str | None, typer.Option(help="What reads: spark, or process, which is this one.")]
STEPS_SHOWN = ("plan", "stage", "validate", "commit")


def run_command(
    name: Name,
    key: CallKeyOption = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Run batch after batch until none is left.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait while somebody else holds the batch.", min=0)] = 60,
    take_over: TakeOver = False,
    retry: Retry = False,
    engine: EngineOption = None,
    as_json: AsJson = False,
) -> None:
    """Plan, stage, validate, commit and announce, without Airflow. Then send what feeds have and their topics have not."""
    if key is not None and until_idle:
        raise typer.BadParameter("one key is one batch: it does not go with --until-idle", param_hint="--key")
    from lockstep.steps.batch import run as steps
    from lockstep.steps.feed.relay_behind import relay_behind
    from lockstep.steps.inspect.warn import known_partitions, warn

    folder, at = load(name), open_context()
    known = known_partitions(at.conn, folder.pipeline)
    reader = engine_for(folder, at, engine)
    caller = Caller(this_owner(), key, take_over, retry)
    again = shlex.join(
        [
            *("lockstep", "run", name, *(["--key", key] if key else [])),
            *(["--until-idle"] if until_idle else []),
            *(["--engine", engine] if engine else []),
        ]
    )
    with shown_progress(again=again, cancel=reader.cancel, counter=counter_of(at, folder)) as say:
        if until_idle:
            reports = list(steps.until_idle(at, reader, folder, caller, wait, say))
        else:
            reports = [steps.run(at, reader, folder, caller, say)]
        relays = relay_behind(at, folder.pipeline, this_owner(), say)
    last = reports[-1]
    document = report_document(last)
    if until_idle:
        worked = [report for report in reports if report.went_on and not report.superseded]
        document = {
            "pipeline": name,
            **decision_document(last.decision),
            "batches": [report_document(report) for report in worked],
            **_changes_of_all(last, worked),
            **windows_of_run(reports),
        }
    document["engine"] = reader.route().way
    document |= {"sent": relays.sent} if topics_of(folder.pipeline.targets) else {}
    document["warnings"] = warn(at.conn, at.broker, folder.pipeline, known, datetime.now(UTC)) + relays.warnings
    finish(last.decision, document, as_json=as_json)


def report_document(report: RunReport) -> dict[str, Any]:
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
        **({"changes": report.changes} if report.changes else {}),
        **windows_of_run([report]),
        "seconds": {step: report.seconds.get(step) for step in STEPS_SHOWN},
    }


def windows_of_run(reports: list[RunReport]) -> dict[str, Any]:
    """Returns the watermark, and what became of each table's windows. Returns nothing for a pipeline without windows."""
    last = reports[-1].emission
    if not last.emitted:
        return {}
    told = {table: {"emitted": 0, "updated": 0, "late": 0} for table in last.emitted}
    for report in reports:
        for table, counts in told.items():
            counts["emitted"] += report.emission.emitted.get(table, 0)
            for name, value in report.windows.get(table, {}).items():
                counts[name] += value
    return {"watermark": last.watermark, "windows": told}


def _changes_of_all(last: RunReport, worked: list[RunReport]) -> dict[str, Any]:
    """Returns how many changes the batches announced to each feed, or nothing without a feed."""
    if not last.changes:
        return {}
    return {"changes": {table: sum(report.changes.get(table, 0) for report in worked) for table in last.changes}}


def finish(decision: Decision, document: dict[str, Any], *, as_json: bool) -> None:
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
