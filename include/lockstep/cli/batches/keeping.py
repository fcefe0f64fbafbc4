"""Defines `upkeep`, which keeps the lake tables of a pipeline quick to read."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from lockstep.adapters.folders import load
from lockstep.cli.options import MaybeReason, Name
from lockstep.cli.output import AsJson, say, show
from lockstep.context.systems import lake_keep, open_context, typing_person

Lake = Annotated[bool, typer.Option("--lake", help="Keep its tables in the lake.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count what would be done; change nothing.")]


def upkeep_command(
    name: Name, lake: Lake = False, dry_run: DryRun = False, reason: MaybeReason = None, as_json: AsJson = False
) -> None:
    """Merge small files and manifests of the pipeline's lake tables. Expire snapshots, and delete what only they held.

    Snapshots that readers were led to within LOCKSTEP_LAKE_KEEP stay, and so do those that a branch or tag names. Runs
    beside batches, readers and other writers. Exits 1 if a step was left for the next time.
    """
    if not lake:
        raise typer.BadParameter("say what to keep: --lake; lockstep reap does the rest", param_hint="--lake")
    from lockstep.core.lake.keeping import Upkeep
    from lockstep.steps.lake.keep_tables import cutoff_now, keep_tables

    pipeline, keep = load(name).pipeline, lake_keep()
    with closing(open_context()) as at:
        cutoff = cutoff_now(at.conn, keep, datetime.now(UTC))
        wanted = Upkeep(typing_person(reason or "upkeep of the lake"), cutoff, dry_run)
        found = keep_tables(at.conn, pipeline, at.broker.view, wanted)
    document = {"pipeline": name, "dry_run": dry_run, "tables": [asdict(kept) for kept in found]}

    def say_lines() -> None:
        for kept in found:
            for line in kept.lines():
                say(line)

    show(document, as_json, say_lines)
    if any(kept.left for kept in found):
        raise typer.Exit(1)
