"""Defines `holes`, which lists uncovered offsets.

With --explain, it also says why some covered offsets hold no record.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.cli.history import OfLedger, known_pipeline
from lockstep.cli.options import Name, OnePartition, OneTopic, bound
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.cli.progress import shown_progress
from lockstep.context.systems import broker, open_ledger
from lockstep.core.errors import Refusal
from lockstep.steps.inspect.lines import format_offsets

if TYPE_CHECKING:
    from lockstep.ledger.views.reading import Document

Explain = Annotated[bool, typer.Option("--explain", help="Tell the gaps in the log apart, too; reads it again.")]
HolesFromOption = Annotated[
    str | None, typer.Option("--from", help="PARTITION:OFFSET, an ISO time, or a batch.", show_default=False)
]
HolesUntilOption = Annotated[str | None, typer.Option("--until", help="The same, not included.", show_default=False)]
MOST_LINES = 40
MEANS = {
    "trimmed": "below the log's start now",
    "invisible": "no record in the archive: a marker, aborted, or compacted",
    "aborted": "of a transaction that was aborted",
    "compacted": "a record stood here; a newer one of its key took its place",
    "marker": "the end of a transaction",
    "marker_or_compacted": "the end of a transaction, or compacted before it was read",
}


def holes_command(
    name: Name,
    explain: Explain = False,
    from_: HolesFromOption = None,
    until: HolesUntilOption = None,
    partition: OnePartition = None,
    topic: OneTopic = None,
    as_json: AsJson = False,
) -> None:
    """List what no batch covers: never read, skipped, or lost.

    With --explain, also the gaps in the log: offsets inside covered ranges that hold no record, and why.
    """
    from lockstep.steps.inspect.holes import holes as ask
    from lockstep.steps.inspect.holes import holes_of_ledger

    if not explain and (from_ or until or topic or partition is not None):
        raise typer.BadParameter(
            "--from, --until, --topic and --partition limit what is read again", param_hint="--explain"
        )
    begin, end = bound(from_, "--from") if from_ else None, bound(until, "--until") if until else None
    found = known_pipeline(name)
    if isinstance(found, OfLedger):
        if explain:
            raise Refusal(
                f"{name}: --explain reads Kafka by the definition, and its folder is gone",
                next_command=f"lockstep holes {name}",
            )
        with open_ledger() as conn:
            told: Document = {"pipeline": name, "holes": holes_of_ledger(conn, name)}
        show(told, as_json, lambda: _say_holes(told))
        return
    pipeline = found.pipeline
    with open_ledger() as conn:
        kafka = broker()
        document: Document = {"pipeline": name, "holes": ask(conn, kafka, pipeline)}
        if explain:
            from lockstep.steps.proof.explain import Within
            from lockstep.steps.proof.explain import explain as tell_apart

            with shown_progress() as tell:
                within = Within(begin, end, partition, topic)
                document |= tell_apart(conn, kafka, pipeline, within, datetime.now(UTC), tell)

    def for_people() -> None:
        _say_holes(document)
        if explain:
            _say_gaps(document)

    show(document, as_json, for_people)


def _say_holes(document: Document) -> None:
    if not document["holes"]:
        say(f"{document['pipeline']}: no holes")
        return
    rows = [[_where(hole), format_offsets(hole), hole["kind"], hole["why"]] for hole in document["holes"]]
    say_table(["partition", "offsets", "kind", "why"], rows)


def _say_gaps(document: Document) -> None:
    there = {kind: count for kind, count in document["counts"].items() if count}
    if not there:
        say(f"no gap in the log in {document['offsets']} covered offsets")
        return
    say(f"gaps in the log in {document['offsets']} covered offsets:")
    gaps = document["gaps"]
    say_table(
        ["  partition", "offsets", "kind", "count>"],
        [[f"  {_where(gap)}", format_offsets(gap), gap["kind"], gap["count"]] for gap in gaps[:MOST_LINES]],
    )
    if len(gaps) > MOST_LINES:
        say(f"  and {len(gaps) - MOST_LINES} stretches more: --json tells all")
    say_table(["  kind", "offsets>", "is"], [[f"  {kind}", count, MEANS[kind]] for kind, count in there.items()])


def _where(stretch: Document) -> str:
    return f"{stretch['topic']}-{stretch['partition']}"
