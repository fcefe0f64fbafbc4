"""Makes the tables of the page, as rows of text, from the measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from peers.contender import APPEND, BARE, KEYED_LIMIT, LIMIT, PEER, UNKEYED, UPSERT
from peers.field import BINARY_4, CONTENDERS
from peers.found import CORES, SIZES, THROUGHPUT, median

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from peers.found import Found, Run

NOTHING = "-"
MICRO = 1e6
FURTHER_CORES = (4, 8)
PROMISES = {contender.name: contender.promise for contender in CONTENDERS}


@dataclass(frozen=True, slots=True)
class Table:
    """Heads and rows. Figures are aligned to the right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        ruler = "| --- |" + " ---: |" * (len(self.heads) - 1)
        lines = [" | ".join(cells) for cells in (self.heads, *self.rows)]
        return "\n".join([f"| {lines[0]} |", ruler, *(f"| {line} |" for line in lines[1:])])


def throughput(found: Found, kind: str, *beside: str) -> Table:
    """Returns rows per second, also as ratios, a record's CPU time, and the rows lost and doubled in all rounds.

    The best peer is of this kind. Kinds beside it are only shown. COPY fills a bare table, and the table of the
    appends.
    """
    peer = found.best(THROUGHPUT, family=PEER, kind=kind)
    keyed = found.best(THROUGHPUT, family=BARE, kind=KEYED_LIMIT)
    heads = ["", "promise", "rows/s", "to the best peer", "to COPY, bare table", "to COPY, same table"]
    heads += ["CPU µs/record", "peak MiB", "lost", "doubled"]
    rows = []
    for name in _by_rate(found, [name for each in (kind, *beside) for name in found.names(THROUGHPUT, kind=each)]):
        runs = found.of(THROUGHPUT, name)
        figures = (
            figure(found.rate(THROUGHPUT, name), ",.0f"),
            figure(found.ratio(THROUGHPUT, name, peer) if peer else None, ".2f"),
            figure(found.ratio(THROUGHPUT, name, BINARY_4.name), ".3f"),
            figure(found.ratio(THROUGHPUT, name, keyed) if keyed and runs[0].kind == APPEND else None, ".2f"),
            figure(median([MICRO * run.cpu / run.records for run in runs]), ".1f"),
            figure(median([run.peak for run in runs]), ",.0f"),
        )
        rows.append((name, PROMISES.get(name, ""), *figures, _sum(runs, "lost"), _sum(runs, "doubled")))
    return Table(tuple(heads), tuple(rows))


def limits(found: Found) -> Table:
    """Returns the limits of this machine: COPY of ready bytes, and readers that drop what they read."""
    names = [name for kind in (LIMIT, KEYED_LIMIT) for name in found.names(THROUGHPUT, family=BARE, kind=kind)]
    rows = [(name, figure(found.rate(THROUGHPUT, name), ",.0f")) for name in _by_rate(found, names)]
    return Table(("", "rows/s"), tuple(rows))


def seconds(found: Found, part: str, head: Callable[[int], str]) -> Table:
    """Returns the median seconds of a run, by the varied number.

    Takes a size that only the throughput has from there.
    """
    steps = {run.at: part for run in found.runs if run.part == part}
    if part == SIZES and steps:
        steps = {run.at: THROUGHPUT for run in found.runs if run.part == THROUGHPUT} | steps
    rows = [
        (name, *(figure(found.seconds(steps[at], name, at), ".3f") for at in sorted(steps)))
        for name in found.names(part)
    ]
    return Table(("seconds", *map(head, sorted(steps))), tuple(rows))


def cold(found: Found, part: str) -> Table:
    """Returns the runs that start a JVM."""
    rows = [
        (
            name,
            figure(found.seconds(part, name), ".1f"),
            figure(median([run.cpu for run in found.of(part, name)]) or None, ".1f"),
        )
        for name in found.names(part)
    ]
    return Table(("", "seconds", "CPU seconds"), tuple(rows))


def cores(found: Found) -> Table:
    """Returns rows per second by tasks side by side, and the model's figures for more.

    The model is time = fixed + shared / cores. If all cores of the machine were not measured again, their figures are
    those of the throughput.
    """
    parts = {run.at: CORES for run in found.runs if run.part == CORES}
    if parts and found.names(THROUGHPUT):
        parts = {found.machine["cores"]: THROUGHPUT} | parts
    measured = sorted(parts)
    further = [number for number in FURTHER_CORES if measured and number > measured[-1]]
    heads = ("rows/s", *(f"local[{k}]" for k in measured), "gain", *(f"model: {k} cores" for k in further))
    rows = []
    for name in found.names(CORES):
        rates = {
            k: median([run.rate for run in found.of(part, name, k if part == CORES else None)])
            for k, part in parts.items()
        }
        known = {k: rate for k, rate in rates.items() if rate}
        few, many = min(known), max(known)
        modelled = [figure(model(known[few], few, known[many], many, k), ",.0f") for k in further]
        cells = [figure(rates[k], ",.0f") for k in measured]
        rows.append((name, *cells, f"{known[many] / known[few]:.2f}", *modelled))
    return Table(heads, tuple(rows))


def model(few_rate: float, few: int, many_rate: float, many: int, cores: int) -> float | None:
    """Returns the rate on so many cores, by the two measured ones, or None if they allow no model."""
    if few == many or many_rate <= few_rate:
        return None
    shared = (1 / few_rate - 1 / many_rate) / (1 / few - 1 / many)
    fixed = max(1 / few_rate - shared / few, 0.0)
    return 1 / (fixed + shared / cores)


def figure(value: float | None, form: str) -> str:
    """Formats a figure, or a dash if nothing was measured."""
    return NOTHING if value is None else format(value, form)


def bars(found: Found) -> list[tuple[str, list[tuple[str, str, float]]]]:
    """Returns groups of (name, family, rows per second), the fastest first."""
    groups = []
    for title, kinds in (("append", (APPEND, UNKEYED)), ("upsert by primary key", (UPSERT,))):
        names = [name for kind in kinds for name in found.names(THROUGHPUT, kind=kind)]
        whose = {run.contender: run.family for run in found.runs}
        group = [(name, whose[name], found.rate(THROUGHPUT, name) or 0.0) for name in _by_rate(found, names)]
        if group:
            groups.append((title, group))
    return groups


def _by_rate(found: Found, names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: -(found.rate(THROUGHPUT, name) or 0.0))


def _sum(runs: list[Run], field: str) -> str:
    return str(sum(getattr(run, field) or 0 for run in runs))
