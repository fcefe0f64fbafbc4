"""Announces a commit, and drops everything that is no longer needed. A failure here undoes nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg2

from lockstep.adapters.postgres import COMMITTER, READER, transaction
from lockstep.core.errors import Refusal
from lockstep.faults import reach
from lockstep.ledger import commit as ledger
from lockstep.steps.seal import seal

if TYPE_CHECKING:
    from lockstep.core.definition import Pipeline
    from lockstep.core.staging import AttemptId
    from lockstep.steps.surroundings import Surroundings

LOCK_SECONDS = 0.2


def announce(at: Surroundings, pipeline: Pipeline, attempt: AttemptId) -> None:
    """Seals the chain, shows the positions as a consumer group's and drops the staged rows.

    Best effort: if the seal or the offsets fail here, the next batch's announcement makes up for it.
    """
    reach("announce.before")
    with suppress(Refusal, psycopg2.Error):
        seal(at.conn, pipeline.name)
    with suppress(Refusal, psycopg2.Error):
        with transaction(at.conn, READER) as cur:
            ranges = ledger.committed_ranges(cur, attempt.batch_id)
        positions = {
            row.partition: row.until_offset for row in ranges if row.lane == "live" and row.state == "committed"
        }
        if positions:
            at.broker.mirror(f"lockstep-{pipeline.name}", pipeline.topic, positions)
    drop_staging(at, attempt)


def drop_staging(at: Surroundings, attempt: AttemptId) -> None:
    """Drops the attempt's staging tables. `reap` drops a table that another session still holds."""
    with suppress(Refusal, psycopg2.Error), transaction(at.conn, COMMITTER, lock_seconds=LOCK_SECONDS) as cur:
        ledger.wait_for_no_standby(cur)
        for table in ledger.staging_of(cur, attempt):
            ledger.drop_staging(cur, table)
