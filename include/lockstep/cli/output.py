"""Prints a command's answer: one JSON document, or a few lines and tables for a person."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lockstep.core.offsets import StreamRange

UNLIMITED = 2**31
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def show(document: Any, as_json: bool, for_people: Callable[[], None]) -> None:
    """Prints the answer in the form that the caller has chosen."""
    if as_json:
        print_json(document)
    else:
        for_people()


def print_json(document: Any) -> None:
    """Prints one JSON document on standard output."""
    sys.stdout.write(json.dumps(document, default=plain, indent=2, ensure_ascii=False) + "\n")


def say(line: str) -> None:
    """Prints one line for a person, or several that the command itself breaks."""
    sys.stdout.write("\n".join(map(printable, line.split("\n"))) + "\n")


def printable(text: str) -> str:
    """Returns the text of one line.

    Writes out characters that a terminal would obey, and those that change the reading order.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _named(c) for c in text)


def _named(character: str) -> str:
    return character.encode("unicode_escape").decode()


def say_warnings(warnings: Iterable[dict[str, Any]]) -> None:
    """Prints each warning on a line of standard error, with the next command."""
    for warning in warnings:
        sys.stderr.write(printable(f"warning: {warning['message']}.  Next: {warning['next']}") + "\n")


def line_width(widest: int = UNLIMITED) -> int:
    """Returns the maximum length of a printed line: the terminal's width, or no limit for a file or pipe."""
    return min(shutil.get_terminal_size().columns, widest) if sys.stdout.isatty() else UNLIMITED


def say_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints rows under their column names. Columns that end in `>` are numbers, aligned to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        name = column.removesuffix(">")
        table.add_column(Text(printable(name)), justify="right" if column.endswith(">") else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell(value))) for value in row))
    console = Console(highlight=False, width=line_width())
    with console.capture() as text:
        console.print(table)
    sys.stdout.write("\n".join(line.rstrip() for line in text.get().splitlines()) + "\n")


def cell(value: Any) -> str:
    """Formats a value for a person: times to the second in UTC, and a dash for a missing value."""
    match value:
        case None | [] | ():
            return "-"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        case float():
            return f"{value:.1f}"
        case list() | tuple():
            return ", ".join(map(cell, value))
        case dict() | memoryview() | bytes() | Decimal() | date():
            return json.dumps(value, default=plain, ensure_ascii=False).strip('"')
        case _:
            return str(value)


def plain(value: Any) -> Any:
    r"""Converts values that JSON lacks.

    Times become ISO 8601 in UTC, decimals exact strings, and bytes text or `\\x` and hex.
    """
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case bytes() | memoryview():
            return text_of(bytes(value))
        case _:
            return str(value)


def text_of(value: bytes) -> str:
    """Returns bytes as text, or in Postgres's hexadecimal form if they are no text."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"\\x{value.hex()}"


def offsets(document: dict[str, Any]) -> str:
    """Formats a range in half-open notation, as `[from, until)`."""
    return f"[{document['from_offset']}, {document['until_offset']})"


def range_document(item: StreamRange) -> dict[str, Any]:
    """Returns a stream's offsets as JSON."""
    where = item.offsets.topic_partition
    return {
        "topic": where.topic,
        "partition": where.partition,
        "from_offset": item.offsets.from_offset,
        "until_offset": item.offsets.until_offset,
    }


def print_run(document: dict[str, Any]) -> None:
    """Prints the result of `plan` or `run`: the decision, and each batch with its ranges."""
    batches = document.get("batches", [document] if document.get("batch") else [])
    for batch in batches:
        print_batch(batch)
    if not batches:
        print_ranges(document.get("ranges", []))
    reason = f": {document['reason']}" if document.get("reason") else ""
    if document.get("superseded") or reason or not batches:
        say(f"{document['pipeline']}: {document.get('superseded') or document['decision'] + reason}")


def print_batch(batch: dict[str, Any]) -> None:
    """Prints one batch on a line, with its ranges below."""
    parts = [f"batch {batch['batch']}", batch.get("lane"), batch.get("state")]
    if batch.get("state") == "committed":
        parts.append(f"{batch['rows_written']} written, {batch['rows_rejected']} rejected")
    say("  ".join(part for part in parts if part))
    spent = [f"{step} {cell(seconds)} s" for step, seconds in batch.get("seconds", {}).items() if seconds is not None]
    if spent:
        say(f"  {', '.join(spent)}")
    print_ranges(batch.get("ranges", []))


def print_ranges(ranges: Sequence[dict[str, Any]]) -> None:
    """Prints ranges, one on a line, with their counts if these are known."""
    counted = [name for name in ("delivered", "written", "rejected", "filtered") if any(name in r for r in ranges)]
    if ranges:
        say_table(
            ["  partition", "offsets", *(f"{name}>" for name in counted)],
            [[f"  {r['topic']}-{r['partition']}", offsets(r), *(r.get(name) for name in counted)] for r in ranges],
        )
