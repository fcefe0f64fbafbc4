"""Defines `erase`, which removes a person's key from everything that the pipeline has written.

The key's records stay out from then on.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.options import Name, Reason
from lockstep.cli.output import AsJson, say, show
from lockstep.context.systems import broker, open_ledger, typing_person
from lockstep.core.text import cell

if TYPE_CHECKING:
    from lockstep.steps.changes.erase import Erased

ErasedKeyOption = Annotated[
    str, typer.Option(help="The key, as its column shows it; - reads it from standard input.", show_default=False)
]
ErasedColumnOption = Annotated[
    str | None,
    typer.Option(help="The column that holds it; the target's key, or the Kafka key's column.", show_default=False),
]
ErasurePreviewOption = Annotated[bool, typer.Option("--preview", help="Show how much it is; change nothing.")]


def erase_command(
    name: Name,
    key: ErasedKeyOption,
    reason: Reason,
    column: ErasedColumnOption = None,
    preview: ErasurePreviewOption = False,
    as_json: AsJson = False,
) -> None:
    """Remove every row, reject and total of one key. Its records in Kafka stay out from then on.

    The decision is kept without the key, and `verify` says what was erased. Batches under way are abandoned. Write the
    reason without the key.
    """
    from lockstep.steps.changes.erase import erase as take_out

    pipeline = folders.load(name).pipeline
    wanted = sys.stdin.readline().rstrip("\r\n") if key == "-" else key
    _refuse_no_text(wanted)
    with open_ledger() as conn:
        done = take_out(conn, broker(), pipeline, wanted, column, typing_person(reason), preview=preview)
    document = {"pipeline": name, "preview": preview} | asdict(done)
    show(document, as_json, lambda: _say(name, done, preview=preview))


def _refuse_no_text(key: str) -> None:
    if not key:
        raise typer.BadParameter("the key is empty", param_hint="--key")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise typer.BadParameter("the key is not UTF-8", param_hint="--key") from None
    if "\0" in key:
        raise typer.BadParameter("no column of text holds a NUL", param_hint="--key")


def _say(name: str, done: Erased, *, preview: bool) -> None:
    verb = "would be erased" if preview else "erased"
    if not done.changed:
        say(f"{name}: nothing of this key is there; it was erased before")
    else:
        rows = ", ".join(f"{count} of {table}" for table, count in done.rows.items()) or "no row and no reject has it"
        say(f"{name}: {verb} by {done.column}: {rows}")
    if done.deletions:
        say(f"remembered deletions: {done.deletions} {verb}")
    if done.said:
        say(f"errors, verdicts and previews that quoted it: {done.said} {verb}")
    if done.abandoned:
        say(f"{'would be abandoned' if preview else 'abandoned'}: batch {cell(list(done.abandoned))}")
    for what in done.left:
        say(f"still holds it: {what}")
    for other in done.shared_with:
        say(f"{other} writes the same table: lockstep erase {other} takes out its rows")
    for table in done.held:
        say(f"staging that a connection still holds: {table}. Next: lockstep reap")
