"""Shows the figures of the second workload as tables, and keeps them as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from peers.found import median
from peers.real.events import SEED, WEIGHTS
from peers.real.field import BINARY_COPY, FIELD, PLAIN_PYTHON, memory_part
from peers.real.goals import goals, peak
from peers.tables import MICRO, NOTHING, Table, figure

if TYPE_CHECKING:
    from pathlib import Path

    from peers.found import Found

HEADS = ("", "engine", "rows/s", "rounds, 1,000 rows/s", "to Python", "to COPY", "CPU µs/record", "peak PSS, MiB")
CHECKS = ("lost", "extra", "rejects")


def shown(found: Found) -> str:
    """Returns the machine, a table for each part, and the goals."""
    machine = ", ".join(f"{name} {value}" for name, value in found.machine.items())
    tables = [f"## {_title(found, part)}\n\n{_table(found, part)}" for part in FIELD if found.names(part)]
    out = [f"left out: {name}, {why}" for name, why in found.missing.items()]
    return "\n\n".join([machine, *tables, f"## Goals\n\n{_goals(found)}", *out])


def save(found: Found, file: Path) -> None:
    """Writes all runs, each with its workload and its engine, and the goals."""
    shares = "/".join(str(100 * each // sum(WEIGHTS)) for each in WEIGHTS)
    found.machine["workload"] = f"seed {SEED}, {len(WEIGHTS)} partitions of {shares} %"
    reached = [asdict(goal) | {"met": goal.met} for goal in goals(found)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(found) | {"goals": reached}, indent=1, ensure_ascii=False) + "\n")


def _title(found: Found, part: str) -> str:
    runs = [run for run in found.runs if run.part == part]
    return f"{part}: {runs[0].workload}, {runs[0].records:,} records"


def _table(found: Found, part: str) -> Table:
    rows = []
    for name in found.names(part):
        runs = found.of(part, name)
        checked = [*runs, *found.of(memory_part(part), name)]
        rejects = {f"{run.rejects} of {run.bad}" for run in checked if run.rejects is not None}
        rows.append(
            (
                name,
                ", ".join(sorted({run.engine for run in runs})),
                figure(found.rate(part, name), ",.0f"),
                ", ".join(f"{run.rate / 1000:.0f}" for run in runs),
                figure(found.ratio(part, name, PLAIN_PYTHON.name), ".2f"),
                figure(found.ratio(part, name, BINARY_COPY.name), ".2f"),
                figure(median([MICRO * run.cpu / run.records for run in runs]), ".1f"),
                figure(peak(found, part, name), ",.0f"),
                str(sum(run.lost or 0 for run in checked)),
                str(sum(run.doubled or 0 for run in checked)),
                " and ".join(sorted(rejects)) or NOTHING,
            )
        )
    return Table((*HEADS, *CHECKS), tuple(rows))


def _goals(found: Found) -> Table:
    words = {True: "yes", False: "no", None: NOTHING}
    rows = [(goal.name, goal.wanted, figure(goal.found, ".2f"), words[goal.met]) for goal in goals(found)]
    return Table(("", "wanted", "found", "met"), tuple(rows))
