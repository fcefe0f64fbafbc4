"""Names the key under which the ledger finds the requests of a history run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, transaction
from lockstep.ledger.changes import history
from lockstep.steps.requests.edges import CLOCK_GRACE

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.core.planning.history import HistoryRun


def key_of_run(conn: connection, pipeline: str, run: HistoryRun) -> str:
    """Returns the key of a run's requests: the same for all of its tries.

    Airflow gives the id of a deleted run to another one. The key then has the time at which that one began.
    """
    if run.started is None:
        return run.key
    with transaction(conn, READER) as cur:
        is_another_runs = history.has_asked_before(cur, pipeline, run.key, run.started - CLOCK_GRACE)
    return f"{run.key} begun {run.started:%Y-%m-%dT%H:%M:%SZ}" if is_another_runs else run.key
