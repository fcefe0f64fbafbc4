"""Defines `rejects`, which lists refused records with the reasons, and runs them again under today's code."""

from __future__ import annotations

from codecs import getincrementaldecoder
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.adapters.processes import this_owner
from lockstep.cli.batches.replaying import How, do
from lockstep.cli.batches.running import Retry, TakeOver
from lockstep.cli.history import refuse_unknown
from lockstep.cli.options import LAST_OFFSET, MaybeReason, Name, OnePartition, OneTopic, Preview, Wait
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.context.systems import open_ledger, typing_person
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.core.text import bytes_text, printable_line

if TYPE_CHECKING:
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.requests import Request
    from lockstep.ledger.views.reading import Document
    from lockstep.steps.context import Context

RedriveOption = Annotated[bool, typer.Option("--redrive", help="Run their segments again under today's code.")]
RejectsBatchOption = Annotated[
    int | None, typer.Option("--batch", help="Only this batch's.", min=1, max=LAST_OFFSET, show_default=False)
]
RejectsLimitOption = Annotated[
    int | None, typer.Option(help="List so many; 20 without it.", min=1, max=100_000, show_default=False)
]
DEFAULT_REJECTS, WIDTH = 20, 24


def rejects_command(
    name: Name,
    redrive: RedriveOption = False,
    partition: OnePartition = None,
    topic: OneTopic = None,
    batch: RejectsBatchOption = None,
    limit: RejectsLimitOption = None,
    preview: Preview = False,
    reason: MaybeReason = None,
    wait: Wait = 60,
    take_over: TakeOver = False,
    retry: Retry = False,
    as_json: AsJson = False,
) -> None:
    """List rejects with their reasons, or run them again.

    --redrive replays every segment that holds such a reject. Its old rows go, new rows come, and the position stays. A
    record that passes today's code and suite is no reject any more. One that does not pass stays a reject, with today's
    reason.
    """
    if redrive:
        if limit is not None:
            raise typer.BadParameter("a redrive runs whole segments again", param_hint="--limit")
        how = How(Caller(this_owner(), take_over=take_over, retry=retry), wait, as_json)
        _again(name, {"partition": partition, "batch_id": batch, "topic": topic}, reason, how, preview=preview)
        return
    if preview or reason:
        raise typer.BadParameter("a list changes nothing", param_hint="--preview" if preview else "--reason")
    document = _listed(name, partition, batch, limit or DEFAULT_REJECTS, topic)
    show(document, as_json, lambda: _say_rejects(document))


def _again(name: str, held: dict[str, Any], reason: str | None, how: How, *, preview: bool) -> None:
    """Runs the segments again. Names rejects that cannot be read again before it, and the remaining ones after it."""
    from lockstep.steps.requests import redrive

    found: list[redrive.Redrive] = []

    def asks(folder: PipelineFolder, at: Context) -> Request | None:
        why = typing_person(reason or "redrive of rejects")
        found.append(redrive.redrive(at.conn, at.broker, folder, redrive.Held(**held), why, preview=preview))
        for stretch in [] if how.as_json else found[0].unreadable:
            say(f"left as they are: {stretch}")
        return found[0].asked

    def adds(at: Context) -> Document:
        unreadable = [asdict(stretch) for stretch in found[0].unreadable]
        if preview:
            return {"unreadable": unreadable}
        windows = found[0].asked.windows if found[0].asked else ()
        reasons = [row._asdict() for row in redrive.remaining_rejects(at.conn, windows)]
        left = sum(each["count"] for each in reasons)
        counts = {"before": found[0].before, "cleared": max(0, found[0].before - left), "left": left}
        return {"unreadable": unreadable, "rejects": counts, "reasons": reasons}

    document = do(name, Lane.REPLAY, how, asks, preview=preview, adds=adds)
    if how.as_json or preview or document["request"] is None:
        return
    counts = document["rejects"]
    say(f"rejects: {counts['cleared']} of {counts['before']} cleared, {counts['left']} left")
    if document["reasons"]:
        say_table(
            ["count>", "reason"], [[each["count"], printable_line(each["reason"])] for each in document["reasons"]]
        )


def _listed(name: str, partition: int | None, batch: int | None, limit: int, topic: str | None) -> Document:
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.views import reading

    refuse_unknown(name)
    with open_ledger() as conn, transaction(conn, READER) as cur:
        found, reasons = reading.read_rejects(cur, name, partition, batch, limit, topic)
    for reject in found:
        for field in ("key", "value"):
            reject[field] = preview_of(reject[field], reject[f"{field}_bytes"])
    return {
        "pipeline": name,
        "total": sum(each["count"] for each in reasons),
        "reasons": reasons,
        "rejects": found,
    }


def preview_of(begin: bytes | memoryview | None, size: int | None) -> str | None:
    """Returns the beginning of a record's bytes as one printable line.

    Writes out characters that a terminal would obey.
    """
    if begin is None:
        return None
    raw, cut = bytes(begin), size is not None and size > len(begin)
    try:
        text = getincrementaldecoder("utf-8")().decode(raw, final=not cut)  # a cut may have gone through a character
    except UnicodeDecodeError:
        text = bytes_text(raw)
    return printable_line(text) + ("..." if cut else "")


def _say_rejects(document: Document) -> None:
    name, listed = document["pipeline"], document["rejects"]
    if not document["total"]:
        say(f"{name}: no rejects")
        return
    say_table(["count>", "reason"], [[each["count"], printable_line(each["reason"])] for each in document["reasons"]])
    names = ["partition", "offset>", "batch>", "reason", "key", "value"]
    rows = [
        [
            f"{r['topic']}-{r['partition']}",
            r["offset"],
            r["batch"],
            printable_line(r["reason"]),
            _short(r["key"]),
            _short(r["value"]),
        ]
        for r in listed
    ]
    say_table(names, rows)
    if document["total"] > len(listed):
        say(f"{document['total'] - len(listed)} more: --limit {document['total']}")
    first = listed[0]
    topic = f" --topic {first['topic']}" if len({each["topic"] for each in listed}) > 1 else ""
    say(f"one record whole: lockstep lineage {name}{topic} --partition {first['partition']} --offset {first['offset']}")


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= WIDTH else f"{text[:WIDTH]}..."
