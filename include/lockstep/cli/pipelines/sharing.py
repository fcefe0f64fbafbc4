"""Finds definitions that name one table: in the ledger if it answers, and in the folder of pipelines."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lockstep.adapters import folders
from lockstep.context.systems import open_ledger
from lockstep.core.errors import Refusal
from lockstep.core.health.ownership import clash, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockstep.core.health.ownership import Conflict, Table
    from lockstep.core.pipeline.definition import Pipeline

    Recorded = dict[str, tuple[dict[Table, Conflict], set[Table]]]


def definitions_on_disk(names: Iterable[str] | None = None) -> list[Pipeline]:
    """Loads the definitions of these names, or every one of the folder.

    Leaves out broken ones, because their own check names the faults, and names that are defined elsewhere.
    """
    loaded = folders.load_each(folders.pipeline_names() if names is None else names)
    return [folder.pipeline for folder in loaded.values() if not isinstance(folder, Refusal)]


def conflicts_of(pipelines: Sequence[Pipeline], known: Sequence[Pipeline]) -> dict[str, list[Conflict]]:
    """Returns the conflicts about each pipeline's tables, against the definitions `known` and the ledger.

    The ledger overrides another definition. It is asked once, or not at all if it is away.
    """
    recorded = _recorded(pipelines)
    return {pipeline.name: _of(pipeline, known, *recorded.get(pipeline.name, ({}, set()))) for pipeline in pipelines}


def _of(
    pipeline: Pipeline, known: Sequence[Pipeline], told: dict[Table, Conflict], owned: set[Table]
) -> list[Conflict]:
    others = [other for other in known if other.name != pipeline.name]
    for table, target in tables_of(pipeline).items():
        found = None if table in owned else clash(pipeline.name, table, target, others)
        if found:
            told.setdefault(table, found)
    return list(told.values())


def _recorded(pipelines: Sequence[Pipeline]) -> Recorded:
    """Returns the ledger's records of each pipeline: conflicts, and tables of its own. Empty if it does not answer."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.changes import owners

    found: Recorded = {}
    with suppress(Refusal), open_ledger() as conn, transaction(conn, READER) as cur:
        for pipeline in pipelines:
            found[pipeline.name] = owners.conflicts(cur, pipeline), owners.owned(cur, pipeline)
    return found
