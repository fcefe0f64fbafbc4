"""Formats batches and their ranges as lines for a terminal or a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.states import BatchState
from lockstep.core.text import cell, printable_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockstep.core.offsets import StreamRange

UNLIMITED = 2**31


def table_lines(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], width: int = UNLIMITED, *, styled: bool = False
) -> list[str]:
    """Returns a table's lines. `styled` is for standard output, and shows the names in bold on a terminal."""
    from rich.console import Console  # noqa: PLC0415 - only a table needs it
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        name = column.removesuffix(">")
        table.add_column(
            Text(printable_line(name)), justify="right" if column.endswith(">") else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(printable_line(cell(value))) for value in row))
    console = Console(highlight=False, width=width, force_terminal=None if styled else False)
    with console.capture() as text:
        console.print(table)
    return [line.rstrip() for line in text.get().splitlines()]


def batch_lines(batch: dict[str, Any]) -> list[str]:
    """Returns what is said of one batch above its ranges: state, counts, the seconds of each step, and its size."""
    parts = [f"batch {batch['batch']}", batch.get("lane"), batch.get("state")]
    if batch.get("state") == BatchState.COMMITTED:
        parts.append(f"{batch['rows_written']} written, {batch['rows_rejected']} rejected")
    spent = [f"{step} {cell(seconds)} s" for step, seconds in batch.get("seconds", {}).items() if seconds is not None]
    lines = ["  ".join(part for part in parts if part)]
    if spent:
        lines.append(f"  {', '.join(spent)}")
    return lines + because_lines(batch)


def because_lines(document: dict[str, Any]) -> list[str]:
    """Returns the line that says why a batch ends where it ends, or none if that is not known."""
    because = document.get("because")
    return [f"  because: {because['text']}"] if because else []


def route_lines(route: dict[str, str] | None) -> list[str]:
    """Returns the line that says which way a batch's records take, and why, or none if that is not known."""
    return [f"  route: {route['way']}: {route['because']}"] if route else []


def spark_lines(attempt: dict[str, Any], delivered: int) -> list[str]:
    """Returns a line with Spark's count of an attempt's records and ours, or none if Spark did not read."""
    if not attempt["spark_application_id"]:
        return []
    records = (attempt["spark"] or {}).get("records")
    counted = "no count of its own" if records is None else f"{records} records by its own count"
    return [f"  Spark: application {attempt['spark_application_id']}, {counted}; {delivered} delivered by ours"]


def range_lines(ranges: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the lines of a table of ranges, or none without a range."""
    return table_lines(*range_table(ranges)) if ranges else []


def range_table(ranges: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """Returns the columns and rows of a table of ranges, with their counts if these are known."""
    counted = [name for name in ("delivered", "written", "rejected", "filtered") if any(name in r for r in ranges)]
    return (
        ["  partition", "offsets", *(f"{name}>" for name in counted)],
        [[f"  {r['topic']}-{r['partition']}", format_offsets(r), *(r.get(name) for name in counted)] for r in ranges],
    )


def format_offsets(document: dict[str, Any]) -> str:
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
