"""Judges the difference between a definition and its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.findings import Check, Judged, problem, warning

if TYPE_CHECKING:
    from lockstep.core.evolution import Proposal


def evolution_findings(proposal: Proposal) -> Judged:
    """Reports a difference over which a batch is refused as a problem, and a type to widen as a warning."""
    remedy = f"lockstep migrate {proposal.pipeline} --propose"
    judged: Judged = []
    for each in proposal.differences:
        if each.blocks:
            why = "a batch is refused before anything is read, until table and definition agree"
            judged.append(problem(Check.TARGET, f"table {each.table}", str(each), why, remedy))
        else:
            why = "a batch with a value that the column cannot hold is refused"
            judged.append(warning(Check.TARGET, f"table {each.table}", str(each), why, remedy))
    return judged or [None]
