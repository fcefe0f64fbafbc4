"""Judges the difference between a definition and its tables, and between a table and its feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.changes.evolution import Change
from lockstep.core.health.findings import Check, Judged, problem, warning

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lockstep.core.changes.evolution import Proposal

SLOW_LOOK = "it grows with the table, and a replay holds the table's lock meanwhile"


def evolution_findings(proposal: Proposal) -> Judged:
    """Reports a difference over which a batch is refused as a problem. Types to widen and indexes are warnings."""
    remedy = f"lockstep migrate {proposal.pipeline} --propose"
    judged: Judged = []
    for each in proposal.differences:
        if isinstance(each, Change) and each.is_index:
            judged += index_findings(proposal.pipeline, [each])
            continue
        if each.blocks:
            why = "a batch is refused before anything is read, until table and definition agree"
            judged.append(problem(Check.TARGET, f"table {each.table}", str(each), why, remedy))
        else:
            why = "a batch with a value that the column cannot hold is refused"
            judged.append(warning(Check.TARGET, f"table {each.table}", str(each), why, remedy))
    return judged or [None]


def index_findings(pipeline: str, missing: Iterable[Change]) -> Judged:
    """Reports keyed tables without an index that leads from a record to its rows."""
    remedy = f"lockstep migrate {pipeline} --propose"
    return [warning(Check.TARGET, f"table {each.table}", str(each), SLOW_LOOK, remedy) for each in missing]


def feed_findings(pipeline: str, misses: Mapping[str, str | None]) -> Judged:
    """Reports tables whose changes no feed can catch. `misses` says by table what is wrong, or None."""
    why = "a commit is refused, for what it does to the table could not be announced"
    return [
        problem(Check.TARGET, f"table {table}", f"feed: {words}", why, f"lockstep migrate {pipeline}")
        if words
        else None
        for table, words in misses.items()
    ]
