"""Keeps a SHA-256 of the rows of each segment, if `verify --deep` finds nothing wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.os_user import os_user
from lockstep.adapters.postgres import COMMITTER, READER, snapshot, transaction
from lockstep.core.changes.person import Person
from lockstep.core.errors import Refusal
from lockstep.ledger.proof import row_hashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import connection

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.proof.verification import PromiseCheck
    from lockstep.ledger.proof.row_hashes import RowHashes

WHY_KEPT = "verify --deep has found nothing wrong"


def hashes_to_keep(conn: connection, pipeline: Pipeline) -> list[RowHashes]:
    """Returns a SHA-256 of the rows of each segment that has none. Take them before the look that compares the rows.

    A row that is changed in between is found by that look. One that is changed later does not fit its hash.
    """
    with snapshot(conn, READER) as cur:
        return row_hashes.missing_hashes(cur, pipeline)


def keep_row_hashes(conn: connection, pipeline: str, found: Sequence[RowHashes], checks: Sequence[PromiseCheck]) -> str:
    """Keeps these hashes by decisions of the process's user, if every check holds.

    Returns why a login that may not decide has kept nothing, or an empty text.
    """
    if not found or not all(check.ok for check in checks):
        return ""
    try:
        with transaction(conn, COMMITTER) as cur:
            row_hashes.keep_hashes(cur, pipeline, found, Person(os_user(), WHY_KEPT))
    except Refusal as refused:
        return f"no SHA-256 of the rows is kept: {refused}"
    return ""
