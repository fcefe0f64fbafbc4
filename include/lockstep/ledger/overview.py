"""Reads the ledger's summary of all pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger", "overview")
RECENT = 40  # batches


def pipelines(cur: cursor, names: Collection[str]) -> list[Any]:
    """Returns a row for each named pipeline: paused, streams, last batch, unfinished batches, requests, hours.

    Omits pipelines that were never planned.
    """
    cur.execute(Q["pipelines"], {"names": list(names)})
    return every(cur)


def recent(cur: cursor, names: Collection[str]) -> dict[str, list[Any]]:
    """Returns `batch_id, closed_at, written` of each pipeline's newest committed batches, the oldest first."""
    cur.execute(Q["recent"], {"names": list(names), "most": RECENT})
    found: dict[str, list[Any]] = {name: [] for name in names}
    for row in every(cur):
        found[row.pipeline].append(row)
    return found


def batches_before(cur: cursor, pipeline: str, lane: str | None, before: int | None, most: int) -> list[int]:
    """Returns the ids of the newest batches older than `before`, the newest first."""
    cur.execute(Q["batches_before"], {"pipeline": pipeline, "lane": lane, "before": before, "most": most})
    return [row.batch_id for row in every(cur)]


def count_rejects(cur: cursor, pipeline: str) -> int:
    """Counts a pipeline's rejects. Its duration grows with their number."""
    cur.execute(Q["count_rejects"], {"pipeline": pipeline})
    found: int = one(cur).rejects
    return found


def newest_definition(cur: cursor, pipeline: str) -> dict[str, Any] | None:
    """Returns the definition of the pipeline's newest attempt as a document, or None before its first attempt."""
    cur.execute(Q["newest_definition"], {"pipeline": pipeline})
    row = maybe(cur)
    return row.document if row else None


def history(cur: cursor, batch_ids: Sequence[int]) -> list[Any]:
    """Returns these batches, the newest first, with counts over all ranges. `runs` are pairs of DAG and run."""
    cur.execute(Q["history"], {"batches": list(batch_ids)})
    return every(cur)


def batches_of_run(cur: cursor, pipeline: str, dag_id: str, run_id: str) -> list[int]:
    """Returns the batches that a DAG run has tried, the newest first."""
    cur.execute(Q["batches_of_run"], {"pipeline": pipeline, "dag_id": dag_id, "run_id": run_id})
    return [row.batch_id for row in every(cur)]


def batch_of_run(cur: cursor, pipeline: str, dag_id: str, run_id: str) -> int | None:
    """Returns the batch of a DAG run, or None if it planned none."""
    owner = f"{dag_id} run {run_id}"
    cur.execute(Q["batch_of_run"], {"pipeline": pipeline, "run_id": run_id, "owner": owner})
    found: int | None = one(cur).batch_id
    return found
