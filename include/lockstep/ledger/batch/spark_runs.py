"""Keeps what Spark says of its own work at an attempt, and reads it again."""

from __future__ import annotations

from dataclasses import asdict, astuple
from typing import TYPE_CHECKING, Any

from psycopg2.extras import execute_values

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.figures import Figures
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger.batch", "spark_runs")


def insert(cur: cursor, attempt: AttemptId, figures: Figures) -> None:
    """Keeps the figures of an attempt with its slowest stages. Waits for no standby: a failover may lose them."""
    cur.execute(Q["wait_for_no_standby_here"])
    stages = None if figures.stages is None else len(figures.stages)
    cur.execute(Q["insert_spark_run"], asdict(attempt) | asdict(figures) | {"stages": stages})
    if figures.slowest:
        rows = [(attempt.batch_id, attempt.token, *astuple(stage)) for stage in figures.slowest]
        execute_values(cur, Q["insert_spark_stages"], rows)


def spark_runs_of_batch(cur: cursor, batch_id: int) -> dict[int, dict[str, Any]]:
    """Returns, by token, the figures of the batch's attempts with their stages, as documents."""
    cur.execute(Q["spark_runs_of_batch"], {"batch_id": batch_id})
    found = {row.token: row._asdict() | {"stages": []} for row in every(cur)}
    if found:
        cur.execute(Q["spark_stages_of_batch"], {"batch_id": batch_id})
        for row in every(cur):
            stage = row._asdict()
            found[stage.pop("token")]["stages"].append(stage)
    for each in found.values():
        del each["token"]
    return found
