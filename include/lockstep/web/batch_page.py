"""One batch: what it reads, what was tried for it, and what became of it."""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException

from lockstep.ledger import reading
from lockstep.web.place import ledger, pipeline_of
from lockstep.web.render import moment, page


def batch_page(dag_id: str, batch_id: int) -> str:
    """One batch of the DAG's pipeline: its ranges, what was tried for it, and what became of it."""
    name = pipeline_of(dag_id)
    with ledger() as cur:
        found = reading.batch(cur, batch_id)
    if found is None or found["pipeline"] != name:
        raise HTTPException(404, f"pipeline {name} has no batch {batch_id}")
    return page("batch.html.jinja", dag_id=dag_id, batch=found, moment=moment, share=_share)


def _share(row: dict[str, Any], ranges: list[dict[str, Any]]) -> float:
    """A range's span in percent of the widest, for its bar."""
    widest = max(r["until_offset"] - r["from_offset"] for r in ranges)
    return float(round(100 * (row["until_offset"] - row["from_offset"]) / widest, 1))
