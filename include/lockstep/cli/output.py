"""Prints a command's answer: one JSON document, or a few lines and tables for a person."""

from __future__ import annotations

import io
import json
import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.core.text import cell, json_plain, printable_line
from lockstep.steps.inspect.lines import UNLIMITED, batch_lines, because_lines, range_table, route_lines, table_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime


AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def show(document: Any, as_json: bool, for_people: Callable[[], None]) -> None:
    """Prints the answer in the form that the caller has chosen."""
    if as_json:
        print_json(document)
    else:
        for_people()


def write_any_text() -> None:
    """Lets standard output take every letter. One that its encoding lacks is written out."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def print_json(document: Any) -> None:
    """Prints one JSON document on standard output: in UTF-8, or in ASCII if that has another encoding."""
    is_ascii = sys.stdout.encoding.lower() not in {"utf-8", "utf8"}
    sys.stdout.write(json.dumps(document, default=json_plain, indent=2, ensure_ascii=is_ascii) + "\n")


def say(line: str) -> None:
    """Prints one line for a person, or several that the command itself breaks. A pipe has it at once, too."""
    sys.stdout.write("\n".join(map(printable_line, line.split("\n"))) + "\n")
    sys.stdout.flush()


def say_warnings(warnings: Iterable[dict[str, Any]]) -> None:
    """Prints each warning on a line of standard error, with the next command."""
    for warning in warnings:
        sys.stderr.write(printable_line(f"warning: {warning['message']}.  Next: {warning['next']}") + "\n")


def line_width(widest: int = UNLIMITED) -> int:
    """Returns the maximum length of a printed line: the terminal's width, or no limit for a file or pipe."""
    return min(shutil.get_terminal_size().columns, widest) if sys.stdout.isatty() else UNLIMITED


def say_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints rows under their column names. Columns that end in `>` are numbers, aligned to the right."""
    sys.stdout.write("\n".join(table_lines(columns, rows, line_width(), styled=True)) + "\n")


def print_run(document: dict[str, Any]) -> None:
    """Prints the result of `plan` or `run`: the decision, and each batch with its ranges."""
    batches = document.get("batches", [document] if document.get("batch") else [])
    for batch in batches:
        print_batch(batch)
    if not batches:
        for line in because_lines(document):
            say(line)
        for line in route_lines(document.get("route")):
            say(line)
        print_ranges(document.get("ranges", []))
    say_windows(document)
    reason = f": {document['reason']}" if document.get("reason") else ""
    if document.get("superseded") or reason or not batches:
        say(f"{document['pipeline']}: {document.get('superseded') or document['decision'] + reason}")
    if document.get("sent"):
        say(f"  sent: {document['sent']:,} changes")


def print_batch(batch: dict[str, Any]) -> None:
    """Prints one batch on a line, with its ranges below, and how many changes it announced to each feed."""
    for line in batch_lines(batch):
        say(line)
    print_ranges(batch.get("ranges", []))
    if changes := batch.get("changes"):
        say("  announced changes: " + ", ".join(f"{count} of {table}" for table, count in changes.items()))


def shown_watermark(watermark: datetime | None) -> str:
    """Returns a watermark for a person, also before there is one."""
    return cell(watermark) if watermark else "not there yet"


def say_windows(document: dict[str, Any]) -> None:
    """Prints what became of each table's windows, and the watermark."""
    for table, counts in document.get("windows", {}).items():
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        say(f"  windows of {table}: {told}; the watermark is {shown_watermark(document['watermark'])}")


def print_ranges(ranges: Sequence[dict[str, Any]]) -> None:
    """Prints ranges, one on a line, with their counts if these are known."""
    if ranges:
        say_table(*range_table(ranges))
