"""Reads the ledger's summary of all pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from psycopg2.extensions import cursor

Q = queries("lockstep.ledger.views", "overview")
RECENT = 40  # batches


def pipelines(cur: cursor, names: Collection[str]) -> list[Any]:
    """Returns a row for each name: paused, planned, streams, last batch, unfinished batches, requests, hours.

    `work` has each unfinished batch as a document, with its holder. `feeds` says where the feed of each of its tables
    stands. A name that is not `recorded` has a row, too, and so has a pipeline that was `forgotten`.
    """
    cur.execute(Q["pipelines"], {"names": list(names)})
    return every(cur)


def offsets_by_engine(cur: cursor, behind: Mapping[str, int], open_batches: Collection[int], most: int) -> list[Any]:
    """Returns `pipeline, open_batch, engine, offsets, newest`: what batches have committed, by engine.

    They are `most` batches of each pipeline after the one that it is `behind`, and these open ones. `open_batch` is None
    for all that are closed. `newest` is the highest new batch of a row.
    """
    given = {"names": list(behind), "behind": list(behind.values()), "open": list(open_batches), "most": most}
    cur.execute(Q["offsets_by_engine"], given)
    return every(cur)


def recent(cur: cursor, names: Collection[str]) -> dict[str, list[Any]]:
    """Returns `batch_id, closed_at, written` of each pipeline's newest committed batches, the oldest first."""
    cur.execute(Q["recent"], {"names": list(names), "most": RECENT})
    found: dict[str, list[Any]] = {name: [] for name in names}
    for row in every(cur):
        found[row.pipeline].append(row)
    return found


def batches_before(
    cur: cursor,
    pipeline: str,
    lane: str | None,
    state: str | None,
    before: int | None,
    most: int,
    *,
    rejects: bool = False,
) -> list[int]:
    """Returns the ids of the newest batches older than `before`, the newest first. None means any lane, or any state.

    With `rejects`, only those of whose records some are rejects now.
    """
    chosen = {"pipeline": pipeline, "lane": lane, "state": state, "before": before, "most": most, "rejects": rejects}
    cur.execute(Q["batches_before"], chosen)
    return [row.batch_id for row in every(cur)]


def is_recorded(cur: cursor, pipeline: str) -> bool:
    """Returns True if the ledger knows a pipeline of this name."""
    cur.execute(Q["is_recorded"], {"pipeline": pipeline})
    found: bool = one(cur).recorded
    return found


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


def ran_by(cur: cursor, pipelines: Sequence[str]) -> dict[str, frozenset[str] | None]:
    """Returns the DAGs that have tried batches of each pipeline. None for one without any attempt."""
    cur.execute(Q["ran_by"], {"names": list(pipelines)})
    return {row.name: frozenset(row.dags) if row.tried else None for row in every(cur)}


def history(cur: cursor, batch_ids: Sequence[int]) -> list[Any]:
    """Returns these batches, the newest first, with counts over all ranges. `runs` are pairs of DAG and run.

    `seconds` is the time from plan to close, None for an open one. `engine` and `application` are of the newest attempt.
    """
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
