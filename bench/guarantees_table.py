"""Writes the table of guarantees under crashes into its page, between two marks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BEGIN, END = "<!-- Written by `make guarantees`. -->\n", "<!-- End of what is written. -->\n"
KILLED = ("drivers", "workers", "executors")
HEADS = ("guarantee", "engine", "store", "records", *(f"{part} killed" for part in KILLED), "lost", "doubled", "other")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one guarantee with one engine: what was killed, and how the store differs from the topic."""

    guarantee: str
    engine: str
    store: str
    records: int
    drivers: int
    workers: int
    executors: int
    lost: int
    doubled: int
    other: int
    as_promised: bool

    def cells(self) -> tuple[object, ...]:
        """Returns the cells of the page's row, in the order of the heads. A process has no parts of Spark to kill."""
        parts = [part if self.engine == "spark" else "-" for part in (self.workers, self.executors)]
        costs = (self.lost, self.doubled, self.other)
        return (self.guarantee, self.engine, self.store, self.records, self.drivers, *parts, *costs)


def table(outcomes: Sequence[Outcome], machine: dict[str, Any], batches: int) -> str:
    """Returns the machine, the rows and the summary as the page shows them."""
    lines: list[tuple[object, ...]] = [HEADS, ("---",) * len(HEADS), *(outcome.cells() for outcome in outcomes)]
    where = f"{machine['cores']} cores, {machine['memory GiB']} GiB, load {machine['load']:.0f}"
    return (
        f"{machine['at'][:10]}, {where}; {batches} batches each, {machine['seconds']} s for all.\n\n"
        + "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
        + f"\nIts last line: `{summary(outcomes)}`\n"
    )


def summary(outcomes: Sequence[Outcome]) -> str:
    """Returns in one line what all of them have seen."""
    kills = ", ".join(f"{sum(getattr(outcome, part) for outcome in outcomes)} {part}" for part in KILLED)
    kept = [outcome for outcome in outcomes if outcome.as_promised]
    due = {cost: sum(getattr(outcome, cost) for outcome in kept) for cost in ("lost", "doubled")}
    return (
        f"{len(kept)} of {len(outcomes)} as promised: {sum(outcome.records for outcome in outcomes)} records compared "
        f"whole; killed: {kills}; {due['doubled']} doubled and {due['lost']} lost where the guarantee allows it"
    )


def written(page: str) -> str:
    """Returns what stands between the marks of the page. Fails if a mark is missing."""
    _, begun, rest = page.partition(BEGIN)
    inside, ended, _ = rest.partition(END)
    if not (begun and ended):
        raise SystemExit(f"the page lacks {BEGIN.strip()} or {END.strip()}")
    return inside


def write(page: Path, outcomes: Sequence[Outcome], machine: dict[str, Any], batches: int) -> None:
    """Replaces what stands between the marks of the page."""
    text = page.read_text(encoding="utf-8")
    old = f"{BEGIN}{written(text)}{END}"
    page.write_text(text.replace(old, f"{BEGIN}\n{table(outcomes, machine, batches)}\n{END}"), encoding="utf-8")
