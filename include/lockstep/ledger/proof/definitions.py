"""Compares each recorded definition with its hash, for `verify`. The chain holds the hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.pipeline.folder import is_hash_of
from lockstep.core.proof.verification import Wrong
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.proof.verification import PromiseCheck

Q = queries("lockstep.ledger.proof", "definitions")
DEFINITIONS_CHECK = "definitions are those that ran"


def definitions_check(cur: cursor, pipeline: str) -> PromiseCheck:
    """Checks the text behind each definition's hash. A text that was changed names the first batch that ran it."""
    wrong = Wrong()
    cur.execute(Q["definitions_that_ran"], {"pipeline": pipeline})
    found = every(cur)
    for row in found:
        if not is_hash_of(row.definition_hash, row.document):
            wrong.add(f"the text of definition {row.definition_hash} is not what batch {row.batch_id} ran")
    return wrong.check(DEFINITIONS_CHECK, told=f"{len(found)} texts by their SHA-256")
