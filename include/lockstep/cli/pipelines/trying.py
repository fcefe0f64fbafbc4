"""`try`: what a run would make of the records of a file, without Kafka and without the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.cli.options import Name
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.cli.progress import shown_progress
from lockstep.core.text import cell

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.core.changes.tried import Tried

DEFAULT_LINES, MOST_TRIED_LINES = 1_000, 100_000
FileOfLines = Annotated[
    str, typer.Option("--file", help="A file with a record a line; - is standard input.", show_default=False)
]
TriedKeyColumn = Annotated[
    str | None, typer.Option("--key", help="The column that is the Kafka key, as `dev produce` takes it.")
]
LinesLimitOption = Annotated[
    int, typer.Option(help="Try only so many lines, from the first on.", min=1, max=MOST_TRIED_LINES)
]
AsEnvelope = Annotated[
    bool,
    typer.Option(
        "--envelope",
        help="Each line is an object: key, value (null deletes), headers, timestamp; key_base64 and value_base64 are bytes.",
    ),
]


def try_command(
    name: Name,
    file: FileOfLines,
    key: TriedKeyColumn = None,
    envelope: AsEnvelope = False,
    limit: LinesLimitOption = DEFAULT_LINES,
    as_json: AsJson = False,
) -> None:
    """Try records on a pipeline: its rows, rejects and verdict, without Kafka or the ledger."""
    if envelope and key is not None:
        raise typer.BadParameter("with --envelope each line has its key", param_hint="--key")
    from lockstep.adapters import folders
    from lockstep.context.systems import configured_registry
    from lockstep.core.pipeline.formats import registered_of
    from lockstep.dev import trial

    folder = folders.load(name)
    says_bytes = registered_of(folder.pipeline.format) is not None
    records, lines = trial.sample(file, key, envelope=envelope, most=limit, says_bytes=says_bytes)
    with shown_progress("starting") as tell:
        found = trial.try_records(folder, records, configured_registry(), tell)
    document = found.document() | {"lines": lines}
    show(document, as_json, lambda: _print(found, lines))
    if not found.verdict.ok:
        raise typer.Exit(1)


def _print(found: Tried, lines: int) -> None:
    """Rows of each target, then what became of the other lines, then the verdict."""
    many = f" of {lines} lines" if lines > found.records else ""
    by = "Spark" if found.engine == "spark" else "the driver, without Spark"
    say(f"{found.pipeline}: {_count(found.records, 'record')}{many}, read by {by}")
    for table in dict.fromkeys(row.table for row in found.rows):
        rows = found.rows_of(table)
        say(f"\n{table}: {_count(len(rows), 'row')}{'' if found.verdict.ok else ', if it were committed'}")
        say_table(["  line>", *rows[0]], [[row.line, *row.values()] for row in rows])
    if found.rejects:
        say(f"\n{_count(len(found.rejects), 'reject')}")
        say_table(
            ["  line>", "reason", "value"], [[each.line, each.reason, _short(each.value)] for each in found.rejects]
        )
    others = list(_others(found))
    if others:
        say("")
    for _, line in sorted(others):
        say(f"line {line}")
    say("")
    for each in found.verdict.expectations:
        more = f": {_count(each.unexpected, 'row')}" if each.unexpected else ""
        more += f", {each.quarantined} quarantined" if each.quarantined else ""
        say(f"{'ok' if each.success else 'NO'}  {each.type}({', '.join(each.columns)}){more}")
    for refusal in found.verdict.refusals:
        say(f"refused: {refusal}")
    what = f"{_count(len(found.rows), 'row')}, {_count(len(found.rejects), 'reject')}"
    say(f"a run would commit: {what}" if found.verdict.ok else "a run would commit nothing")


def _others(found: Tried) -> Iterable[tuple[int, str]]:
    for gone in found.deletions:
        key = ", ".join(f"{name} {cell(value)}" for name, value in gone.key.items())
        what = f"deletes {key} from {gone.table}"
        if all(value is None for value in gone.key.values()):
            what = f"truncates {gone.table}: every row from before it in the source's log goes"
        yield gone.line, f"{gone.line}: {what}"
    for old in found.superseded:
        yield old.line, f"{old.line}: superseded by line {old.by}"
    for line in found.filtered:
        yield line, f"{line}: filtered"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _short(value: Any, most: int = 60) -> Any:
    from lockstep.core.text import bytes_text

    text = None if value is None else bytes_text(value)
    return text if text is None or len(text) <= most else f"{text[:most]}..."
