"""Defines `windows`, which shows the watermark, the partitions that hold it, and the newest windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters.folders import load
from lockstep.cli.options import Name
from lockstep.cli.output import AsJson, say, say_table, show, shown_watermark
from lockstep.context.systems import open_context
from lockstep.core.text import cell

if TYPE_CHECKING:
    from lockstep.ledger.views.reading import Document

WindowsLast = Annotated[int, typer.Option("--last", help="So many windows.", min=1, max=100_000)]
WindowsTable = Annotated[
    str | None, typer.Option("--target", help="The table, where several have windows.", show_default=False)
]


def windows_command(name: Name, last: WindowsLast = 24, target: WindowsTable = None, as_json: AsJson = False) -> None:
    """Show the windows that are due, then say the watermark, what holds it, and the newest windows.

    A window is open until the watermark has passed it. It is then emitted, and closed once its lateness is over too.
    """
    from lockstep.steps.windows.emit import emit
    from lockstep.steps.windows.look import target_with_windows, windows_document

    pipeline = load(name).pipeline
    chosen = target_with_windows(pipeline, target, f"lockstep windows {name}")
    at = open_context()
    emit(at.conn, at.broker, pipeline)
    document = windows_document(at.conn, pipeline, chosen, last)
    show(document, as_json, lambda: _say(document))


def _say(document: Document) -> None:
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in document["counts"].items())
    say(f"{document['target']}: the watermark is {shown_watermark(document['watermark'])}; {counts}")
    for each in document["held_by"]:
        say(
            f"  held by {each['topic']}-{each['partition']}: {each['why']} (its time is {shown_watermark(each['time'])})"
        )
    if document["windows"]:
        names = ["  start", "end", "state", "keys>", "records>", "revisions>", "late>"]
        rows = [
            [f"  {cell(w['start'])}", w["end"], w["state"], w["keys"], w["records"], w["revisions"], w["late"]]
            for w in document["windows"]
        ]
        say_table(names, rows)
