"""Seals commits and decisions into the pipeline's chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.ledger.batch.commit import wait_for_no_standby
from lockstep.ledger.proof import chain

if TYPE_CHECKING:
    from psycopg2.extensions import connection

SEAL_LOCK_SECONDS = 0.2


def seal(conn: connection, pipeline: str) -> bool:
    """Links the oldest records that wait. Returns True if more of them may wait. Sealing again changes nothing."""
    with transaction(conn, COMMITTER, lock_seconds=SEAL_LOCK_SECONDS) as cur:
        wait_for_no_standby(cur)
        return chain.seal_oldest(cur, pipeline)


def seal_all(conn: connection, pipeline: str) -> None:
    """Links every record that waits."""
    more = True
    while more:
        with transaction(conn, COMMITTER) as cur:
            more = chain.seal_oldest(cur, pipeline)
