"""Checks that no other pipeline writes a pipeline's tables.

Looks at the recorded owners, and at what was committed before owners were recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.health.ownership import tables_of
from lockstep.core.proof.verification import PromiseCheck
from lockstep.ledger.changes import owners
from lockstep.ledger.changes.forgotten import forgetting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockstep.core.health.ownership import Owner
    from lockstep.core.pipeline.definition import Pipeline

ONE_WRITER_PER_TABLE = "no other pipeline writes the table"


def new_owners(cur: Any, pipeline: Pipeline) -> list[str]:
    """Returns the owners of a forgotten pipeline's tables, which it gave free."""
    if forgetting(cur, pipeline.name) is None:
        return []
    return [owner.pipeline for table in tables_of(pipeline) for owner in owners.recorded_owners(cur, table)]


def of_owners(cur: Any, pipeline: Pipeline) -> Iterator[tuple[Pipeline, PromiseCheck]]:
    """Yields one check per target, beside the pipeline with that target alone."""
    for one in pipeline.each():
        for table in tables_of(one):
            found = owners.conflicts(cur, one).get(table)
            receiver = owners.handed_over_to(cur, table, pipeline.name) if found else None
            if found and forgetting(cur, pipeline.name):
                yield (
                    one,
                    PromiseCheck(
                        ONE_WRITER_PER_TABLE, ok=True, detail=f"{table} was given free, and belongs to {found.owner}"
                    ),
                )
            elif receiver:
                yield one, PromiseCheck(ONE_WRITER_PER_TABLE, ok=True, detail=f"{table} was handed over to {receiver}")
            elif found:
                yield (
                    one,
                    PromiseCheck(
                        ONE_WRITER_PER_TABLE, ok=False, detail=found.reason.removeprefix(f"{pipeline.name}: ")
                    ),
                )
            elif (recorded := owners.recorded_owners(cur, table)) or forgetting(cur, pipeline.name) is None:
                yield one, PromiseCheck(ONE_WRITER_PER_TABLE, ok=True, detail=_owned(recorded))
            else:
                yield (
                    one,
                    PromiseCheck(ONE_WRITER_PER_TABLE, ok=True, detail=f"{table} was given free and has no owner"),
                )


def _owned(recorded: Sequence[Owner]) -> str:
    names = ", ".join(owner.pipeline for owner in recorded)
    return f"owned by {names}" if names else "no owner is recorded yet"
