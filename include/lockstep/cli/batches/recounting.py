"""Defines `recount`, which lets the count of a table's keys go on after rows were changed outside commits."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lockstep.adapters import folders
from lockstep.cli.options import Name, Reason
from lockstep.cli.output import AsJson, say, show
from lockstep.context.systems import broker, configured_registry, open_ledger, typing_person

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.steps.proof.recount import Recounted


def recount_command(name: Name, reason: Reason, as_json: AsJson = False) -> None:
    """Count the rows of an upserted table from what is there, after somebody has deleted or put in rows.

    Runs `verify --deep` first, and refuses while anything but that count is wrong.
    """
    from lockstep.steps.proof.recount import recount as count_anew

    folder = folders.load(name)
    with open_ledger() as conn:
        done = count_anew(conn, broker(), folder, typing_person(reason), configured_registry())
    document: dict[str, Any] = {
        "pipeline": name,
        "recounted": [asdict(each) for each in done],
        "changed": bool(done),
    }
    show(document, as_json, lambda: _say(name, done))


def _say(name: str, done: Sequence[Recounted]) -> None:
    for each in done:
        say(
            f"{each.target}: {each.expected} rows by the effects of commits, counted from now on as the {each.found} there"
        )
    if not done:
        say(f"{name}: every table has as many rows as its commits have left")
