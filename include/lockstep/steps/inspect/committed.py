"""Compares a definition with those that were committed under its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.planning.blocked import changed_definition
from lockstep.ledger.batch.plan import last_documents

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.planning.decisions import Blocked


def changed_since_commit(cur: cursor, pipeline: Pipeline, name: str | None = None) -> Blocked | None:
    """Returns Blocked, as the next plan would, if it would find another definition by now.

    `name` is the ledger's name of the pipeline, if it has another one than the definition.
    """
    return changed_definition(pipeline, last_documents(cur, name or pipeline.name, None))
