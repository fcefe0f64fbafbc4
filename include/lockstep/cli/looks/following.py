"""Defines `changes`, which reads a target's feed: every change of its table, in the order of the commits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from lockstep.cli.history import pipeline_as_run
from lockstep.cli.options import LAST_OFFSET, Name
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.context.systems import open_ledger
from lockstep.core.errors import Refusal
from lockstep.core.text import cell

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Pipeline, Target

LIMIT, MOST_SHOWN_CHANGES = 20, 100_000
FollowedTableOption = Annotated[
    str | None, typer.Option("--target", help="The table, where several have a feed.", show_default=False)
]
Begin = Annotated[
    int | None,
    typer.Option(
        "--from", help="The first number; the newest changes without it.", min=0, max=LAST_OFFSET, show_default=False
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        help=f"At most so many changes; {LIMIT} without it.",
        min=1,
        max=MOST_SHOWN_CHANGES,
        show_default=False,
    ),
]
Timeline = Annotated[
    UUID | None,
    typer.Option(
        "--timeline", help="The timeline of the reader's numbers; refused after a restore.", show_default=False
    ),
]
Snapshot = Annotated[bool, typer.Option("--snapshot", help="The table's rows, and the number to go on at.")]


def changes_command(
    name: Name,
    target: FollowedTableOption = None,
    from_: Begin = None,
    limit: Limit = None,
    timeline: Timeline = None,
    snapshot: Snapshot = False,
    as_json: AsJson = False,
) -> None:
    """Show the changes of a table, in the order of the commits.

    With --snapshot, the table's rows at one moment. Go on with --from NEXT_NUMBER --timeline TIMELINE behind them.
    """
    from lockstep.adapters.postgres import READER
    from lockstep.adapters.postgres import snapshot as one_moment
    from lockstep.ledger.feed.reading import read_changes, read_snapshot

    if snapshot and (from_ is not None or limit is not None or timeline is not None):
        raise typer.BadParameter(
            "shows rows, and --from, --limit and --timeline are of changes", param_hint="--snapshot"
        )
    pipeline = pipeline_as_run(name)
    chosen = target_with_feed(pipeline, target, f"lockstep changes {name}")
    with open_ledger() as conn, one_moment(conn, READER) as cur:
        if snapshot:
            document = read_snapshot(cur, name, chosen)
        else:
            most, kept = LIMIT if limit is None else limit, None if timeline is None else str(timeline)
            document = read_changes(cur, name, chosen.table, from_, most, kept)
    show(document, as_json, lambda: _say(document))


def target_with_feed(pipeline: Pipeline, table: str | None, again: str) -> Target:
    """Returns the target with a feed, by its table's name if there are several. `again` is the command to type then."""
    found = [target for target in pipeline.targets if target.feed is not None]
    if not found:
        raise Refusal(
            f"{pipeline.name}: no target has a feed",
            next_command=f"give a target feed=Feed(keep='7 days'), then lockstep migrate {pipeline.name}",
        )
    if table is None and len(found) == 1:
        return found[0]
    for target in found:
        if target.table == table:
            return target
    names = ", ".join(target.table for target in found)
    raise Refusal(
        f"{pipeline.name}: {f'{table!r} has no feed' if table else 'several targets have a feed'}: {names}",
        next_command=f"{again} --target {found[0].table}",
    )


def _say(document: dict[str, Any]) -> None:
    rows = document.get("rows")
    if rows is not None:
        for row in rows:
            say(json.dumps(row))
        at = f"number {document['next_number']} of the timeline {document['timeline']}"
        say(f"{document['target']}: {len(rows)} rows; go on at {at}")
        return
    entries = [
        [each["number"], each["seq"], each["change"], _by(each), cell(each["at"]), _shown(each)]
        for each in document["changes"]
    ]
    if entries:
        say_table(["number>", "set>", "change", "by", "at", "row"], entries)
    say(f"{document['target']}: changes [{document['kept_from']}, {document['next_number']}) are kept")


def _by(change: dict[str, Any]) -> str:
    if change["batch"] is not None:
        return f"batch {change['batch']}"
    return "windows" if change["kind"] == "emission" else "a person"


def _shown(change: dict[str, Any]) -> str:
    """Returns the row of an insertion or a deletion, and of an update its key and the values that differ."""
    before, after = change["before"], change["after"]
    if before is None and after is None:
        return "-"
    if before is None or after is None:
        return json.dumps(after or before)
    differing = {name: [before.get(name), value] for name, value in after.items() if before.get(name) != value}
    return json.dumps(change["key"] | differing)
