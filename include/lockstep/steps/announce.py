"""Announce: what is already true is said, and what is not needed any more is dropped; failing here undoes nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg2

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.core.errors import Refusal
from lockstep.faults import reach
from lockstep.ledger import commit as ledger
from lockstep.ledger.attempts import staging

if TYPE_CHECKING:
    from lockstep.core.staging import AttemptId
    from lockstep.steps.surroundings import Surroundings

LOCK_SECONDS = 0.2


def announce(at: Surroundings, attempt: AttemptId) -> None:
    """Drops the attempt's staging table, best effort: a zombie may still hold it, then reap will."""
    reach("announce.before")
    with suppress(Refusal, psycopg2.Error), transaction(at.conn, COMMITTER, lock_seconds=LOCK_SECONDS) as cur:
        ledger.drop_staging(cur, staging(attempt))
