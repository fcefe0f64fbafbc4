"""Compares an attempt's definition with the folder and the promoted transform: one definition makes and commits a row."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lockstep.core.changes.promotion import not_deployed
from lockstep.core.errors import DefinitionChanged
from lockstep.core.pipeline.folder import changed_parts
from lockstep.ledger.changes import promotions
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import maybe

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger.batch", "same_definition")


def require_same_definition(cur: cursor, attempt: AttemptId, folder: PipelineFolder) -> None:
    """Raises `DefinitionChanged` unless the folder is the attempt's. Call it under the batch's row lock.

    The error ends the attempt: the next plan resumes its batch under the new definition.
    """
    cur.execute(Q["definition_of"], asdict(attempt) | {"definition_hash": folder.content_hash()})
    other: Any = maybe(cur)
    if other is None:
        return
    name = folder.pipeline.name
    parts = ", ".join(changed_parts(other.document, folder.document()))
    raise DefinitionChanged(
        f"{name}: attempt {attempt.token} of batch {attempt.batch_id} was staged under definition {other.definition_hash}, "
        f"the pipeline's folder is now {folder.content_hash()} (changed: {parts}): the attempt ends and nothing of it is "
        "committed, the next run reads the batch again",
        next_command=f"lockstep run {name}",
    )


def require_promoted(cur: cursor, attempt: AttemptId, folder: PipelineFolder) -> None:
    """Raises `DefinitionChanged` if another transform was promoted since. Call it under the batch's row lock."""
    name = folder.pipeline.name
    found = not_deployed(name, promotions.promotion_in_force(cur, name), folder.transform)
    if found:
        raise DefinitionChanged(
            f"{found.reason}: attempt {attempt.token} of batch {attempt.batch_id} ends", next_command=found.next_command
        )
