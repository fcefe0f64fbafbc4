"""Defines `hours`, which lists the complete hours and the proof of each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.options import Name
from lockstep.cli.output import AsJson, cell, offsets, say, say_table, show
from lockstep.cli.surroundings import broker, ledger

if TYPE_CHECKING:
    from lockstep.ledger.reading import Document

Last = Annotated[int, typer.Option(help="Only the newest so many.", min=1)]


def hours(name: Name, last: Last = 24, as_json: AsJson = False) -> None:
    """List the hours that are complete: every record of them is in the table.

    Records those that are complete by now first. Without Airflow, no other command does that.
    """
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger import hours as kept
    from lockstep.steps.hours import keep_hours

    pipeline = folders.load(name).pipeline
    with ledger() as conn:
        waiting = keep_hours(conn, broker(), pipeline, datetime.now(UTC)).waiting
        with transaction(conn, READER) as cur:
            listed = kept.hours(cur, name, last)
    document: Document = {
        "pipeline": name,
        "complete_through": listed[-1]["until"] if listed else None,
        "hours": listed,
        "waits_for": {"until": waiting.until, "reason": waiting.reason, "next": waiting.next_command}
        if waiting
        else None,
    }
    show(document, as_json, lambda: _say_hours(document))


def _say_hours(document: Document) -> None:
    if document["hours"]:
        say_table(
            ["hour until", "batches", "partitions>", "offsets>", "losses>"],
            [
                [
                    hour["until"],
                    _batches(hour["batches"]),
                    len({part["partition"] for part in hour["offsets"]}),
                    sum(part["until_offset"] - part["from_offset"] for part in hour["offsets"]),
                    len(hour["losses"]),
                ]
                for hour in document["hours"]
            ],
        )
    for hour in document["hours"]:
        for loss in hour["losses"]:
            where = f"{loss['topic']}-{loss['partition']} {offsets(loss)}"
            say(f"{cell(hour['until'])} is complete but for {where}")
    if waits := document["waits_for"]:
        say(f"the hour until {cell(waits['until'])} waits: {waits['reason']}")
        say(f"Next: {waits['next']}")
    elif not document["hours"]:
        say(f"{document['pipeline']}: no hour is complete yet")


def _batches(ids: list[int]) -> str:
    """Formats batches as `7`, `7 to 12`, or a dash if there are none."""
    return "-" if not ids else str(ids[0]) if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
