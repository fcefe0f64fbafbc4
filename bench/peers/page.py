"""Writes the page and the picture from the measurements alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from peers import grid, tables
from peers.contender import APPEND, PEER, UNKEYED, UPSERT
from peers.field import (
    ATTACHED,
    BINARY_4,
    CONTENDERS,
    HAND_WRITTEN,
    ONCE_WRITTEN,
    OUR_UPSERT,
    OUR_UPSERT_BY_PARTITION,
    PER_BATCH,
    PER_PARTITION,
)
from peers.found import COLD, PARTITIONS, SIZES, THROUGHPUT
from peers.goals import goals

if TYPE_CHECKING:
    from peers.contender import Contender
    from peers.found import Found

WIDTH, LEFT, BAR, GAP, TITLE = 760, 290, 18, 6, 34


def page(found: Found) -> str:
    """Returns docs/performance.md."""
    return _rendered(
        "performance.md.jinja",
        found=found,
        machine=found.machine,
        goals=[(goal, _verdict(goal.met), tables.figure(goal.found, ".2f")) for goal in goals(found)],
        records=max((run.records for run in found.runs if run.part == THROUGHPUT), default=0),
        append=tables.throughput(found, APPEND, UNKEYED),
        best=_best(found, APPEND, PER_BATCH, ATTACHED, ONCE_WRITTEN, PER_PARTITION),
        best_upsert=_best(found, UPSERT, OUR_UPSERT, OUR_UPSERT_BY_PARTITION),
        bare_table=_bare_table(found),
        on_grid=grid.grids(found),
        undecided=[name for name, times in grid.times_by_session(found).items() if not grid.is_decidable(times)],
        minutes=sum(found.took.values()),
        upsert=tables.throughput(found, UPSERT),
        limits=tables.limits(found),
        sizes=tables.seconds(found, SIZES, "{:,} records".format),
        partitions=tables.seconds(found, PARTITIONS, "{} partitions".format),
        cold=tables.cold(found, COLD),
        cores=tables.cores(found),
        rounds=max((run.number for run in found.runs), default=0),
    )


def picture(found: Found) -> str:
    """Returns docs/images/performance.svg: rows per second as bars, light and dark."""
    groups = tables.bars(found)
    most = max((rate for _, bars in groups for _, _, rate in bars), default=1.0)
    drawn: list[dict[str, Any]] = []
    top = TITLE
    for title, bars in groups:
        top += TITLE
        drawn.append({"title": title, "y": top - 12, "bars": []})
        for name, family, rate in bars:
            width = round((WIDTH - LEFT - 90) * rate / most, 1)
            drawn[-1]["bars"].append({"name": name, "family": family, "rate": f"{rate:,.0f}", "y": top, "width": width})
            top += BAR + GAP
    copy = found.rate(THROUGHPUT, BINARY_4.name)
    return _rendered(
        "performance.svg.jinja",
        groups=drawn,
        width=WIDTH,
        height=top + 40,
        left=LEFT,
        bar=BAR,
        machine=found.machine,
        copy=None if copy is None else f"{copy:,.0f}",
        best=found.best(THROUGHPUT, family=PEER, kind=APPEND),
    )


def write(found: Found, page_file: Path, picture_file: Path) -> None:
    """Writes both."""
    page_file.write_text(page(found))
    picture_file.write_text(picture(found))


def _best(found: Found, kind: str, *ours: Contender) -> list[dict[str, Any]]:
    """Returns the best peer of all and the best product, each with our ratios to it. The same one appears only once."""
    hand_written = {each.name for each in CONTENDERS if each.session in HAND_WRITTEN}
    names = [
        found.best(THROUGHPUT, family=PEER, kind=kind),
        found.best(THROUGHPUT, family=PEER, kind=kind, but=hand_written),
    ]
    titles = dict(zip(reversed(names), ("The best product", "The best peer"), strict=True))
    return [
        {
            "title": titles[name],
            "name": name,
            "ratios": [(each.name, tables.figure(found.ratio(THROUGHPUT, each.name, name), ".2f")) for each in ours],
        }
        for name in dict.fromkeys(names)
        if name
    ]


def _bare_table(found: Found) -> dict[str, str]:
    """Returns the fastest peer into a bare table, with our ratios to it. Empty if none was measured."""
    name = found.best(THROUGHPUT, family=PEER, kind=UNKEYED)
    if name is None:
        return {}
    batch, partition = (found.ratio(THROUGHPUT, each.name, name) for each in (PER_BATCH, PER_PARTITION))
    return {"name": name, "batch": tables.figure(batch, ".2f"), "partition": tables.figure(partition, ".2f")}


def _verdict(met: bool | None) -> str:  # noqa: FBT001 - three answers
    return "not measured" if met is None else "met" if met else "not met"


def _rendered(name: str, **facts: Any) -> str:
    folder = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=folder,
        undefined=StrictUndefined,
        autoescape=name.endswith("svg.jinja"),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.keep_trailing_newline = True
    return environment.get_template(name).render(facts)
