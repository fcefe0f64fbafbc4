"""Two definitions that name one table: found in the ledger where it can be reached, and in the folder of pipelines."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lockstep.adapters import folders
from lockstep.cli.surroundings import ledger
from lockstep.core.errors import Refusal
from lockstep.core.ownership import clash, tables_of

if TYPE_CHECKING:
    from lockstep.core.definition import Pipeline
    from lockstep.core.ownership import Conflict, Table


def conflicts_of(pipeline: Pipeline) -> list[Conflict]:
    """Returns the conflicts about a pipeline's tables. The ledger's word counts more than another definition's."""
    recorded, owned = _recorded(pipeline)
    others = _others(pipeline)
    for table, target in tables_of(pipeline).items():
        found = None if table in owned else clash(pipeline.name, table, target, others)
        if found:
            recorded.setdefault(table, found)
    return list(recorded.values())


def _others(pipeline: Pipeline) -> list[Pipeline]:
    found = []
    for name in folders.names():
        with suppress(Refusal):  # a definition that does not load has faults of its own, which its own check names
            found += [folders.load(name).pipeline] if name != pipeline.name else []
    return found


def _recorded(pipeline: Pipeline) -> tuple[dict[Table, Conflict], set[Table]]:
    """Returns what the ledger says: conflicts, and tables of the pipeline's own. Empty where it cannot be asked."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger import owners

    with suppress(Refusal), ledger() as conn, transaction(conn, READER) as cur:
        return owners.conflicts(cur, pipeline), owners.owned(cur, pipeline)
    return {}, set()
