"""Checks that a table belongs to one pipeline, or to several that name one another as sharing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.core.health.findings import Check, Judged, problem
from lockstep.core.lake.catalogs import Catalog
from lockstep.core.pipeline.stores import Files, Postgres
from lockstep.core.pipeline.targets import Upsert, shares

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.targets import Target

OWN_DATABASE = ""


@dataclass(frozen=True, slots=True, order=True)
class Table:
    """A target's table: the name of its store, empty for the ledger's own database, and schema.table."""

    store: str
    name: str

    def __str__(self) -> str:
        return f"{self.name} of store {self.store}" if self.store else self.name


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """A pipeline that owns a table, and the pipelines that its definition shares the table with."""

    pipeline: str
    shared_with: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """A table that a pipeline may not write: its owner or another writer, the reason, and the next command."""

    owner: str
    reason: str
    next_command: str


def tables_of(pipeline: Pipeline) -> dict[Table, Target]:
    """Returns the tables that a pipeline writes. Files give none: they lie in a folder of the pipeline's own name."""
    if isinstance(pipeline.store, Files):
        return {}
    store = pipeline.store.name if isinstance(pipeline.store, Postgres | Catalog) else OWN_DATABASE
    return {Table(store, target.table): target for target in pipeline.targets}


def conflict(
    pipeline: str, table: Table, target: Target, owners: Sequence[Owner], writers: Iterable[str]
) -> Conflict | None:
    """Returns why the pipeline may not write the table, or None.

    `owners` are recorded. If there are none, `writers` are the pipelines that have committed into the table.
    """
    shared_with = shares(target)
    for owner in sorted(owners):
        if owner.pipeline == pipeline or (owner.pipeline in shared_with and pipeline in owner.shared_with):
            continue
        reason = f"{pipeline}: {table} belongs to {owner.pipeline}"
        if owner.pipeline in shared_with:
            reason += f", whose definition does not name {pipeline} in shared_with"
        return Conflict(owner.pipeline, reason, _ways_out(target, table, owner.pipeline, pipeline))
    others = sorted(set(writers) - {pipeline, *shared_with}) if not owners else []
    if not others:
        return None
    also = f" and by {pipeline}" if pipeline in writers else ""
    return Conflict(
        others[0],
        f"{pipeline}: {table} was written by {', '.join(others)}{also}, and no owner is recorded",
        _ways_out(target, table, others[0], pipeline),
    )


def windows_of_others(pipeline: str, table: Table, others: Sequence[str]) -> Conflict | None:
    """Returns why the pipeline may not take a table with windows, or None. `others` are those whose records count there.

    Its own records would count in their windows, and be shown by another event time.
    """
    if not others:
        return None
    return Conflict(
        others[0],
        f"{pipeline}: {table} has windows of {others[0]}, and their event time is that of {others[0]}",
        f"name another table, or lockstep forget {others[0]} --undo --reason ...",
    )


def clash(pipeline: str, table: Table, target: Target, others: Iterable[Pipeline]) -> Conflict | None:
    """Returns the conflict with the definitions of the other pipelines alone, or None."""
    found = [
        Owner(other.name, shares(its)) for other in others for name, its in tables_of(other).items() if name == table
    ]
    return conflict(pipeline, table, target, [owner for owner in found if owner.pipeline != pipeline], ())


def owner_findings(pipeline: str, conflicts: Sequence[Conflict]) -> Judged:
    """Reports each table of the pipeline that is in conflict with another pipeline."""
    why = "two pipelines that write one table double its rows, or overwrite each other's"
    found: Judged = [
        problem(Check.OWNER, f"pipeline {pipeline}", each.reason.removeprefix(f"{pipeline}: "), why, each.next_command)
        for each in conflicts
    ]
    return found or [None]


def _ways_out(target: Target, table: Table, owner: str, pipeline: str) -> str:
    share = "name each other in shared_with of both definitions" if isinstance(target, Upsert) else "name another table"
    give = f"lockstep hand-over {table.name} --from {owner} --to {pipeline} --reason ..."
    return f"{share}, or {give}, or if its folder was renamed: lockstep rename {owner} {pipeline} --reason ..."
