"""Defines `archive`, which copies raw records into files before retention deletes them, and looks after those files."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.adapters.folders import load
from lockstep.cli.options import MaybeReason, Name
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.context.systems import open_context, typing_person
from lockstep.core.text import size_of_bytes

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.steps.context import Context

CheckFiles = Annotated[bool, typer.Option("--check", help="Read every archived file again; change nothing.")]
DropBefore = Annotated[
    str | None,
    typer.Option(
        "--drop-before",
        metavar="TIME",
        help="Drop the files whose newest record is older, as a decision.",
        show_default=False,
    ),
]


def archive_command(
    name: Name,
    check: CheckFiles = False,
    drop_before: DropBefore = None,
    reason: MaybeReason = None,
    as_json: AsJson = False,
) -> None:
    """Copy raw records into files before retention deletes them, as far as the definition's archive says.

    A file counts when it was closed, read back, and its row committed. Offsets that files hold can be replayed, filled
    and verified below log start. --check exits 1 if a file is missing or changed. --drop-before keeps files with records
    that the live lane has not passed, and files that a batch under way reads.
    """
    if check and drop_before is not None:
        raise typer.BadParameter("it goes without --drop-before", param_hint="--check")
    if drop_before is not None and reason is None:
        raise typer.BadParameter("a decision needs a reason", param_hint="--reason")
    if drop_before is None and reason is not None:
        raise typer.BadParameter("only --drop-before is a decision", param_hint="--reason")
    moment = None if drop_before is None else _moment(drop_before)
    from lockstep.steps.upkeep.archive import archive_place

    pipeline = load(name).pipeline
    archive_place(pipeline)  # refuses a definition without one, before any server is asked
    with closing(open_context()) as at:
        if check:
            document = _checked(at, pipeline)
        elif moment is not None:
            document = _dropped(at, pipeline, moment, str(reason))
        else:
            document = _copied(at, pipeline)
    show(document, as_json, lambda: _say(document))
    if document["damaged"]:
        raise typer.Exit(1)


def _moment(text: str) -> datetime:
    from lockstep.core.planning.bounds import moment_of

    try:
        return moment_of(text.strip())
    except ValueError:
        raise typer.BadParameter(f"{text} is no ISO 8601 time", param_hint="--drop-before") from None


def _copied(at: Context, pipeline: Pipeline) -> dict[str, Any]:
    from lockstep.steps.upkeep.archive import archive_due

    found = archive_due(at, pipeline, datetime.now(UTC))
    files = [
        {
            "topic": each.file.offsets.topic_partition.topic,
            "partition": each.file.offsets.topic_partition.partition,
            "from_offset": each.file.offsets.from_offset,
            "until_offset": each.file.offsets.until_offset,
            "records": each.file.records,
            "bytes": each.bytes,
            "path": each.file.path,
        }
        for each in found.copied
    ]
    missed = [str(each) for each in found.missed]
    return _document(at, pipeline, copied=files, missed=missed, deletes=bool(found.due))


def _checked(at: Context, pipeline: Pipeline) -> dict[str, Any]:
    from lockstep.steps.upkeep.archived_files import check_files

    found = check_files(at.conn, pipeline)
    known = {"checked": found.well, "damaged": list(found.damaged), "strays": list(found.strays)}
    return _document(at, pipeline, **known)


def _dropped(at: Context, pipeline: Pipeline, moment: datetime, reason: str) -> dict[str, Any]:
    from lockstep.steps.upkeep.archived_files import drop_before

    found = drop_before(at.conn, pipeline, moment, typing_person(reason))
    known = {"dropped": list(found.paths), "left": list(found.left), "removed": found.removed}
    return _document(at, pipeline, **known)


def _document(at: Context, pipeline: Pipeline, **known: Any) -> dict[str, Any]:
    """Returns what the call did, and what the archive holds now."""
    from lockstep.adapters.archive.store import ArchiveStore
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.batch.archived import archive_facts
    from lockstep.steps.upkeep.archive import archive_place

    place = archive_place(pipeline)
    with transaction(at.conn, READER) as cur:
        held = [row._asdict() for row in archive_facts(cur, pipeline.name)]
    nothing: dict[str, Any] = {
        "deletes": None,
        "copied": [],
        "missed": [],
        "checked": None,
        "damaged": [],
        "strays": [],
    }
    nothing |= {"dropped": [], "left": [], "removed": None}
    shown = {"pipeline": pipeline.name, "place": ArchiveStore(place.place).shown, "within": place.within}
    return shown | nothing | known | {"held": held}


def _say(document: dict[str, Any]) -> None:
    for file in document["copied"]:
        offsets = f"{file['topic']}-{file['partition']} [{file['from_offset']}, {file['until_offset']})"
        say(f"{offsets}: {file['records']} records in {size_of_bytes(file['bytes'])}, {file['path']}")
    if document["deletes"] is False:
        say(f"retention deletes nothing of what {document['pipeline']} reads")
    elif document["deletes"] and not document["copied"]:
        say(f"nothing is due: retention deletes nothing more within {document['within']}")
    if document["checked"] is not None:
        say(f"{document['checked']} files are as they were written")
    for what, words in (
        ("missed", "deleted before it was archived"),
        ("damaged", "damaged"),
        ("strays", "counts for nothing, because the ledger has no row of it"),
        ("dropped", "dropped"),
        ("left", "not dropped"),
    ):
        for line in document[what]:
            say(f"{words}: {line}")
    if document["held"]:
        names = ["partition", "from>", "until>", "files>", "records>", "size>"]
        say_table(names, [_row(each) for each in document["held"]])
    say(f"{document['pipeline']}: {document['place']}")
    if document["damaged"]:
        say(f"Next: restore the files from a copy, then lockstep archive {document['pipeline']} --check")


def _row(each: dict[str, Any]) -> list[object]:
    where = [f"{each['topic']}-{each['partition']}", each["from_offset"], each["until_offset"]]
    return [*where, each["files"], each["records"], size_of_bytes(each["bytes"])]
