"""Writes the table of guarantees under crashes into its page, between two marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BEGIN, END = "<!-- Written by `make guarantees`. -->\n", "<!-- End of what is written. -->\n"
HEADS = ("guarantee", "store", "records", "crashes", "lost", "doubled", "rows/s")


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one guarantee.

    Its pace is that of the batches after the last crash, except for the first of them.
    """

    guarantee: str
    store: str
    records: int
    crashes: int
    lost: int
    doubled: int
    rows_per_second: int | None
    as_promised: bool


def table(rows: Sequence[Row], machine: dict[str, Any], batches: int) -> str:
    """Returns the machine and the rows as the page shows them."""
    lines: list[tuple[object, ...]] = [HEADS, ("---",) * len(HEADS)]
    for row in rows:
        pace = row.rows_per_second or "-"
        lines.append((row.guarantee, row.store, row.records, row.crashes, row.lost, row.doubled, pace))
    where = f"{machine['cores']} cores, {machine['memory GiB']} GiB, load {machine['load']:.0f}"
    size = f"{rows[0].records // batches:,}"
    return (
        f"{machine['at'][:10]}, {where}; {batches} batches each, {machine['seconds']} s for all. The pace is that of a warm\n"
        f"process over batches of {size} records: [bench](../bench/README.md) has that of larger ones.\n\n"
        + "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
    )


def written(page: str) -> str:
    """Returns what stands between the marks of the page. Fails if a mark is missing."""
    _, begun, rest = page.partition(BEGIN)
    inside, ended, _ = rest.partition(END)
    if not (begun and ended):
        raise SystemExit(f"the page lacks {BEGIN.strip()} or {END.strip()}")
    return inside


def write(page: Path, rows: Sequence[Row], machine: dict[str, Any], batches: int) -> None:
    """Replaces what stands between the marks of the page."""
    text = page.read_text(encoding="utf-8")
    old = f"{BEGIN}{written(text)}{END}"
    page.write_text(text.replace(old, f"{BEGIN}\n{table(rows, machine, batches)}\n{END}"), encoding="utf-8")
