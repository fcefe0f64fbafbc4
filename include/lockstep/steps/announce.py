"""Announce: what is already true is said, and what is not needed any more is dropped; failing here undoes nothing."""

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
    """Seals the chain, shows the positions as a consumer group's and drops what was staged: all best effort.

    What cannot be sealed or shown now is sealed and shown with the next batch.
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
    """The attempt's staged rows have done their work; where somebody still holds a table, reap drops it."""
    with suppress(Refusal, psycopg2.Error), transaction(at.conn, COMMITTER, lock_seconds=LOCK_SECONDS) as cur:
        ledger.wait_for_no_standby(cur)
        for table in ledger.staging_of(cur, attempt):
            ledger.drop_staging(cur, table)
