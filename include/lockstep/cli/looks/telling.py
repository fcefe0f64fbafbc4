"""Defines `hours`, which lists the complete hours and the proof of each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.cli.history import OfLedger, known_pipeline
from lockstep.cli.options import Name
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.context.systems import broker, open_ledger
from lockstep.core.planning.bounds import moment_of
from lockstep.core.planning.hours import HOUR, Complete
from lockstep.core.text import cell
from lockstep.steps.inspect.lines import format_offsets

if TYPE_CHECKING:
    from lockstep.core.planning.hours import Waiting
    from lockstep.ledger.views.reading import Document

Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Judge the hours from this time on, too, that came before the first plan."),
]
NewestHoursOption = Annotated[int, typer.Option(help="Only the newest so many.", min=1)]


def hours_command(name: Name, last: NewestHoursOption = 24, since: Since = None, as_json: AsJson = False) -> None:
    """List the hours that are complete: every record of them is in the table.

    Records those that are complete by now first. Without Airflow, no other command does that. The first hour that is
    recorded is the first one after the pipeline began. --since also judges older ones, at most a week of them. It
    records none of these. The revision says how often Airflow was told of an hour.
    """
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.views import hours as kept
    from lockstep.steps.batch.hours import judge_hours, keep_hours, told_from

    found, now = known_pipeline(name), datetime.now(UTC)
    after = None if since is None else _moment(since)
    with open_ledger() as conn:
        waiting, begin, earlier = None, None, []
        if not isinstance(found, OfLedger):
            waiting = keep_hours(conn, broker(), found.pipeline, now).waiting
            begin = told_from(conn, found.pipeline, now)
            earlier = judge_hours(conn, broker(), found.pipeline, after, now) if after else []
        with transaction(conn, READER) as cur:
            listed = kept.hours(cur, name, last)
    document: Document = {
        "pipeline": name,
        "complete_through": listed[-1]["until"] if listed else None,
        "told_from": begin,
        "earlier": [_judged(each) for each in earlier],
        "hours": listed,
        "waits_for": {"until": waiting.until, "reason": waiting.reason, "next": waiting.next_command}
        if waiting
        else None,
    }
    show(document, as_json, lambda: _say_hours(document))


def _moment(text: str) -> datetime:
    try:
        return moment_of(text)
    except ValueError:
        raise typer.BadParameter(
            f"--since {text!r} is no time, such as 2026-05-01T12:00", param_hint="--since"
        ) from None


def _judged(hour: Complete | Waiting) -> Document:
    """Returns an hour that is not recorded, with its proof, or with what it waits for."""
    from lockstep.ledger.views.hours import proof

    known: Document = {"from": hour.until - HOUR, "until": hour.until, "complete": isinstance(hour, Complete)}
    if isinstance(hour, Complete):
        return known | proof(hour) | {"reason": None, "next": None}
    return known | {"batches": [], "losses": [], "reason": hour.reason, "next": hour.next_command}


def _say_earlier(document: Document) -> None:
    rows = [
        [hour["until"], "complete" if hour["complete"] else "waits", _batches(hour["batches"]), hour["reason"] or ""]
        for hour in document["earlier"]
    ]
    if rows:
        say_table(["hour until", "state", "batches", "why"], rows)
        if waits := next((hour for hour in document["earlier"] if not hour["complete"]), None):
            say(f"Next: {waits['next']}")


def _say_hours(document: Document) -> None:
    _say_earlier(document)
    if document["hours"]:
        say_table(
            ["hour until", "batches", "partitions>", "offsets>", "losses>", "revision>"],
            [
                [
                    hour["until"],
                    _batches(hour["batches"]),
                    len({(part["topic"], part["partition"]) for part in hour["offsets"]}),
                    sum(part["until_offset"] - part["from_offset"] for part in hour["offsets"]),
                    len(hour["losses"]),
                    hour["revision"] or "-",
                ]
                for hour in document["hours"]
            ],
        )
    for hour in document["hours"]:
        for loss in hour["losses"]:
            where = f"{loss['topic']}-{loss['partition']} {format_offsets(loss)}"
            say(f"{cell(hour['until'])} is complete but for {where}")
        if hour["changed"]:
            say(f"{cell(hour['until'])} has changed since it was told: the next run of its DAG tells it again")
    if waits := document["waits_for"]:
        say(f"the hour until {cell(waits['until'])} waits: {waits['reason']}")
        say(f"Next: {waits['next']}")
    elif not document["hours"]:
        say(f"{document['pipeline']}: no hour is complete yet")
    if document["told_from"] and not document["earlier"]:
        say(f"Hours are told from {cell(document['told_from'])} on.")
        say(f"Older ones: lockstep hours {document['pipeline']} --since TIME")


def _batches(ids: list[int]) -> str:
    """Formats batches as `7`, `7 to 12`, or a dash if there are none."""
    return "-" if not ids else str(ids[0]) if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
