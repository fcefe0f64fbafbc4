"""Defines `late`, which lists records that came after their window was closed, and admits them by a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters.folders import load
from lockstep.adapters.processes import this_owner
from lockstep.cli.batches.replaying import How, do
from lockstep.cli.batches.running import Retry, TakeOver
from lockstep.cli.options import LAST_OFFSET, MaybeReason, Name, OnePartition, OneTopic, Wait
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.context.systems import open_ledger, typing_person
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.core.text import cell

if TYPE_CHECKING:
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.requests import Request
    from lockstep.ledger.views.reading import Document
    from lockstep.steps.context import Context

AdmitOption = Annotated[bool, typer.Option("--admit", help="Count them after all, by a replay of their segments.")]
LateLast = Annotated[int, typer.Option("--last", help="So many windows, and so many records.", min=1, max=100_000)]
LateTable = Annotated[
    str | None, typer.Option("--target", help="The table, where several have windows.", show_default=False)
]
LateFrom = Annotated[
    int | None,
    typer.Option(
        "--from", help="With --admit and --partition: the first offset.", min=0, max=LAST_OFFSET, show_default=False
    ),
]
LateUntil = Annotated[
    int | None,
    typer.Option(
        "--until", help="With --admit and --partition: not included.", min=0, max=LAST_OFFSET, show_default=False
    ),
]


def late_command(
    name: Name,
    admit: AdmitOption = False,
    last: LateLast = 20,
    target: LateTable = None,
    partition: OnePartition = None,
    topic: OneTopic = None,
    from_: LateFrom = None,
    until: LateUntil = None,
    reason: MaybeReason = None,
    wait: Wait = 60,
    take_over: TakeOver = False,
    retry: Retry = False,
    as_json: AsJson = False,
) -> None:
    """List the records that came after their window was closed, or let them count after all.

    --admit is a decision. Records that were judged together are admitted together. Their segments are replayed, and
    windows that are shown get their next revision.
    """
    if admit:
        if reason is None:
            raise typer.BadParameter("a decision needs a reason", param_hint="--reason")
        if partition is None and (from_ is not None or until is not None):
            raise typer.BadParameter("offsets are those of a partition", param_hint="--partition")
        if target is not None:
            raise typer.BadParameter("a replay is of all targets", param_hint="--target")
        how = How(Caller(this_owner(), take_over=take_over, retry=retry), wait, as_json)
        _admit(name, (topic, partition, from_, until), reason, how)
        return
    for option, given in (("--topic", topic), ("--from", from_), ("--until", until), ("--reason", reason)):
        if given is not None:
            raise typer.BadParameter("a list changes nothing: it goes with --admit", param_hint=option)
    _list(name, target, partition, last, as_json=as_json)


def _list(name: str, target: str | None, partition: int | None, last: int, *, as_json: bool) -> None:
    from lockstep.steps.windows.look import late_document, target_with_windows

    pipeline = load(name).pipeline
    chosen = target_with_windows(pipeline, target, f"lockstep late {name}")
    with open_ledger() as conn:
        document = late_document(conn, pipeline, chosen, partition, last)
    show(document, as_json, lambda: _say_late(document))


def _admit(name: str, wanted: tuple[str | None, int | None, int | None, int | None], reason: str, how: How) -> None:
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.windows.reading import read_late
    from lockstep.steps.windows.admit import LateWanted, admit_late
    from lockstep.steps.windows.look import require_windows

    pipeline = load(name).pipeline
    require_windows(pipeline)

    def asks(folder: PipelineFolder, at: Context) -> Request | None:
        return admit_late(at.conn, at.broker, folder, typing_person(reason), LateWanted(*wanted))

    def adds(at: Context) -> Document:
        with transaction(at.conn, READER) as cur:
            return {"late": sum(read_late(cur, target.table, None, 1)[0] for target in pipeline.windows)}

    document = do(name, Lane.REPLAY, how, asks, adds=adds)
    if document["late"] and not how.as_json:
        say(f"{document['late']} rows stay late: lockstep late {name}")


def _say_late(document: Document) -> None:
    say(f"{document['target']}: {document['late']} late")
    if document["by_window"]:
        say_table(
            ["  window", "end", "rows>"],
            [[f"  {cell(w['start'])}", w["end"], w["rows"]] for w in document["by_window"]],
        )
    if document["records"]:
        rows = [
            [
                f"  {r['topic']}-{r['partition']}",
                r["offset"],
                r["event_time"],
                r["window_start"],
                ", ".join(map(str, r["key"])),
                round(r["late_by_seconds"]),
                r["batch"],
            ]
            for r in document["records"]
        ]
        say_table(["  partition", "offset>", "event", "window", "key", "late by s>", "batch>"], rows)
        if waiting := sum(r["admitted_by"] is not None for r in document["records"]):
            say(f"{waiting} of these are admitted, and their replay has not ended: the same command goes on")
        say(f"let them count: lockstep late {document['pipeline']} --admit --reason WHY")
