"""Checks that no other pipeline writes a pipeline's tables.

Looks at the recorded owners, and at what was committed before owners were recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.ownership import tables_of
from lockstep.core.verification import Check
from lockstep.ledger import owners

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockstep.core.definition import Pipeline
    from lockstep.core.ownership import Owner

NAME = "no other pipeline writes the table"


def of_owners(cur: Any, pipeline: Pipeline) -> Iterator[tuple[Pipeline, Check]]:
    """Yields one check per target, beside the pipeline with that target alone."""
    for one in pipeline.each():
        for table in tables_of(one):
            found = owners.conflicts(cur, one).get(table)
            receiver = owners.handed_over_to(cur, table, pipeline.name) if found else None
            if receiver:
                yield one, Check(NAME, ok=True, detail=f"{table} was handed over to {receiver}")
            elif found:
                yield one, Check(NAME, ok=False, detail=found.reason.removeprefix(f"{pipeline.name}: "))
            else:
                yield one, Check(NAME, ok=True, detail=_owned(owners.owners(cur, table)))


def _owned(recorded: Sequence[Owner]) -> str:
    names = ", ".join(owner.pipeline for owner in recorded)
    return f"owned by {names}" if names else "no owner is recorded yet"
