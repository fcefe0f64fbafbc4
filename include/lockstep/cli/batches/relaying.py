"""Defines `relay`, which sends a target's feed to its topic."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.adapters.processes import this_owner
from lockstep.cli.batches.running import end_blocked
from lockstep.cli.history import pipeline_of
from lockstep.cli.looks.following import FollowedTableOption, target_with_feed
from lockstep.cli.options import LAST_OFFSET, MaybeReason, Name
from lockstep.cli.output import AsJson, print_json, say, show
from lockstep.cli.progress import shown_progress
from lockstep.context.systems import open_context, typing_person
from lockstep.core.planning.decisions import Blocked, Busy

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Pipeline, Target
    from lockstep.steps.context import Context
    from lockstep.steps.feed.relay import RelayReport

RELAY_PAUSE_SECONDS = 0.5
RestartAt = Annotated[
    int | None,
    typer.Option(
        "--restart-at", help="Begin anew at this number.", min=0, max=LAST_OFFSET, metavar="NUMBER", show_default=False
    ),
]


def relay_command(
    name: Name,
    target: FollowedTableOption = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Go on until nothing is left, also behind another relay.")
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait while another relay sends.", min=0)] = 60,
    restart_at: RestartAt = None,
    reason: MaybeReason = None,
    as_json: AsJson = False,
) -> None:
    """Send the changes of a table to its topic, each once.

    With --restart-at, begin anew at a number, by a decision that the ledger keeps. Changes behind it that were sent are sent
    twice. Changes before it that were not sent never are.
    """
    if (restart_at is None) != (reason is None):
        raise typer.BadParameter("--restart-at and --reason go together", param_hint="--restart-at")
    from lockstep.steps.feed.relay import RelayReport, restart

    pipeline = pipeline_of(name)
    chosen, at = target_with_feed(pipeline, target, f"lockstep relay {name}"), open_context()
    if restart_at is not None:
        known = restart(at, pipeline, chosen, this_owner(), restart_at, typing_person(reason))
        document = _document(RelayReport(known)) | {"restarted_at": restart_at}
        show(document, as_json, lambda: say(f"{known.target}: the relay begins anew at number {restart_at}"))
        return
    report = _relayed(at, pipeline, chosen, wait if until_idle else None)
    if isinstance(report.stopped, Blocked):
        if as_json:
            print_json(_document(report))
        end_blocked(report.stopped, as_json=as_json)
    show(_document(report), as_json, lambda: _say(report))


def _relayed(at: Context, pipeline: Pipeline, target: Target, wait: float | None) -> RelayReport:
    """Relays once, or until nothing is left if it may wait for another relay. Returns one report of all."""
    from lockstep.steps.feed.relay import relay

    sent = transactions = 0
    busy_until = time.monotonic() + (wait or 0)
    with shown_progress("sending", again=f"lockstep relay {pipeline.name}") as telling:
        while True:
            report = relay(
                at, pipeline, target, this_owner(), lambda count: telling(f"sending: {count:,} changes are sent")
            )
            sent, transactions = sent + report.sent, transactions + report.transactions
            is_over = not report.sent and not (isinstance(report.stopped, Busy) and time.monotonic() < busy_until)
            if wait is None or is_over or isinstance(report.stopped, Blocked):
                return replace(report, sent=sent, transactions=transactions)
            time.sleep(0 if report.sent else RELAY_PAUSE_SECONDS)


def _document(report: RelayReport) -> dict[str, Any]:
    known, stopped = report.relayed, report.stopped
    went = "sent" if report.sent else "idle"
    return {
        "pipeline": known.pipeline,
        "target": known.target,
        "topic": known.topic,
        "decision": type(stopped).__name__.lower() if stopped else went,
        "sent": report.sent,
        "transactions": report.transactions,
        "next_number": known.next_number,
        "behind": known.next_number - known.confirmed,
        "reason": stopped.reason if stopped else None,
        "next": stopped.next_command if isinstance(stopped, Blocked) else None,
    }


def _say(report: RelayReport) -> None:
    known = report.relayed
    if isinstance(report.stopped, Busy):
        say(f"busy: {report.stopped.reason}")
        return
    left = known.next_number - known.confirmed
    more = f", {left:,} wait" if left else ""
    say(f"{known.target}: {report.sent:,} changes sent to {known.topic}{more}")
