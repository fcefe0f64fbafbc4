"""Gives a pipeline another name: a recorded decision. All of its history comes along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.health.ownership import tables_of
from lockstep.core.lake.catalogs import Catalog
from lockstep.core.pipeline.names import topic_words
from lockstep.core.pipeline.stores import Files
from lockstep.ledger.changes import forgotten, owners
from lockstep.steps.batch.seal import seal_all
from lockstep.steps.changes.decisions import deciding
from lockstep.steps.changes.forget import require_known
from lockstep.steps.inspect.committed import changed_since_commit

if TYPE_CHECKING:
    from typing import Any

    from psycopg2.extensions import connection

    from lockstep.core.changes.person import Person
    from lockstep.core.pipeline.definition import Pipeline


def rename(conn: connection, former: str, pipeline: Pipeline, person: Person) -> bool:
    """Renames a pipeline to the name of this definition, which must be the same otherwise.

    Nothing is under way then, and nothing can commit under the old name later. Returns False if it was renamed so
    already.
    """
    name = pipeline.name
    if former == name:
        raise Refusal(f"{name}: it has this name", next_command=f"lockstep status {name}")
    with transaction(conn, READER) as cur:
        known = forgotten.names_in_ledger(cur)
        moved = forgotten.renamed(cur, former)
        if moved and moved.pipeline == name:
            return False
        if former not in known and moved:
            forgotten.refuse_renamed(cur, former)
        require_known(cur, former)
        _refuse_taken(cur, name, former, known)
    with deciding(conn, former) as cur:
        _refuse_busy(cur, former)
        _refuse_another(cur, former, pipeline)
        forgotten.rename_in_ledger(cur, former, name, person)
    seal_all(conn, name)
    return True


def _refuse_taken(cur: Any, name: str, former: str, known: dict[str, bool]) -> None:
    if name in known:
        raise Refusal(
            f"the ledger has a pipeline {name} already, with a history of its own",
            next_command=f"lockstep batches {name}",
        )
    taken = forgotten.renamed(cur, name)
    if taken and taken.pipeline != former:
        raise Refusal(
            f"{name} is a former name of {taken.pipeline}, and leads there",
            next_command=f"lockstep rename {former} ANOTHER_NAME --reason ...",
        )


def _refuse_busy(cur: Any, former: str) -> None:
    unfinished = owners.unfinished_of_pipeline(cur, former)
    if unfinished:
        raise Refusal(
            f"{former}: batch {unfinished[0]} is unfinished, and a pipeline is renamed with nothing under way",
            next_command=f"lockstep abandon {unfinished[0]} --reason ..., or finish it under the old name",
        )


def _refuse_another(cur: Any, former: str, pipeline: Pipeline) -> None:
    """Refuses a definition that is more than renamed, and what the ledger's name alone does not rename."""
    bears = {Files: "files in a folder of its name", Catalog: "told by its name in a table of another catalog"}
    if what := bears.get(type(pipeline.store)):
        raise Refusal(
            f"{former}: its results are {what}, which the ledger cannot rename",
            next_command=f"lockstep new {pipeline.name} --topic {topic_words(pipeline.topic)}",
        )
    changed = changed_since_commit(cur, pipeline, former)
    if changed:
        raise Refusal(
            f"{changed.reason}; a rename changes the name alone",
            next_command=f"put it back, then lockstep rename {former} {pipeline.name} --reason ...",
        )
    for table in tables_of(pipeline):
        sharing = [owner for owner in owners.recorded_owners(cur, table) if owner.shared_with]
        if sharing:
            raise Refusal(
                f"{former}: it shares {table} with {', '.join(sharing[0].shared_with)}, whose definitions name it",
                next_command="take shared_with out of all of them, lockstep migrate each, then "
                f"lockstep rename {former} {pipeline.name} --reason ...",
            )
