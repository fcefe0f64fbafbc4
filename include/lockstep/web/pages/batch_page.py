"""Renders one batch: its ranges, its attempts, their durations, and the outcome."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import HTTPException

from lockstep.core.pipeline.names import pipeline_of_dag
from lockstep.core.proof import verdict
from lockstep.core.states import AttemptState, BatchState
from lockstep.ledger.feed.reading import read_change_sets
from lockstep.ledger.lake.told import moves_of_batch
from lockstep.ledger.views import one_batch, reading
from lockstep.ledger.windows.reading import judged_by
from lockstep.web.pages.redrive import redrive_page
from lockstep.web.pages.spark_part import spark_part
from lockstep.web.place import reading_ledger
from lockstep.web.render import page

if TYPE_CHECKING:
    from lockstep.ledger.views.reading import Document

TIMELINE_WIDTH = 1000
REJECTS_PER_REASON = 5  # of records that were refused for one reason
OPEN = {AttemptState.OPEN, AttemptState.STAGED, AttemptState.VALIDATED}


def batch_page(dag_id: str, batch_id: int) -> str:
    """Renders one batch of the DAG's pipeline: its ranges, its attempts and its outcome."""
    name = pipeline_of_dag(dag_id)
    with reading_ledger() as cur:
        found = reading.read_batch(cur, batch_id)
        if found is None or found["pipeline"] != name:
            raise HTTPException(404, f"pipeline {name} has no batch {batch_id}")
        code = one_batch.code_versions(cur, batch_id)
        request = one_batch.request_of_batch(cur, batch_id)
        reasons = one_batch.reject_reasons(cur, batch_id, REJECTS_PER_REASON) if found["rows_rejected"] else []
        again = one_batch.rejected_ranges(cur, batch_id) if reasons else []
        change_sets = read_change_sets(cur, batch_id)
        judged = judged_by(cur, batch_id)
        in_lake = moves_of_batch(cur, batch_id)
        expectations = verdict.expectations(found["verdict"], one_batch.partitions_of_batch(cur, batch_id))
    now = datetime.now(UTC)
    return page(
        "batch.html.jinja",
        dag_id=dag_id,
        batch=found,
        spans=_spans(found, now),
        attempts=[_attempt(row, code, now) for row in found["attempts"]],
        spark=spark_part(found["attempts"]),
        request=request,
        change_sets=change_sets,
        judged=judged,
        in_lake=in_lake,
        reasons=reasons,
        redrive=redrive_page(name, batch_id, again) if again else None,
        refusals=verdict.refusals(found["verdict"]),
        expectations=expectations,
        widest=max((r["until_offset"] - r["from_offset"] for r in found["ranges"]), default=1),
        effect=_effect(found["effect"] or {}),
    )


def _attempt(row: Document, code: dict[str, str], now: datetime) -> dict[str, Any]:
    """Returns an attempt with its code version, its lease in words, and the link to its log."""
    until, seconds = row["lease_until"], (row["lease_until"] - now).total_seconds()
    open_ = row["state"] in OPEN
    return row | {
        "code_version": code.get(row["definition_hash"]),
        "seconds": ((row["closed_at"] or now) - row["opened_at"]).total_seconds(),
        "lease": ("given back" if not open_ else "held until" if seconds > 0 else "over since"),
        "lease_until": until if open_ else None,
        "run": _run(row),
        "log": _log(row),
    }


def _run(row: Document) -> str | None:
    if not row["dag_run_id"]:
        return None
    return f"/dags/{quote(row['dag_id'], safe='')}/runs/{quote(row['dag_run_id'], safe='')}"


def _log(row: Document) -> str | None:
    """Returns the link to the log of the try that read for this attempt. Older attempts do not say which task it was."""
    run, index = _run(row), row["map_index"]
    if run is None or row["task_id"] is None:
        return None
    task = f"{run}/tasks/{quote(row['task_id'], safe='')}" + ("" if index is None else f"/mapped/{index}")
    return task + (f"?try_number={row['try_number']}" if row["try_number"] else "")


def _spans(batch: Document, now: datetime) -> list[dict[str, Any]]:
    """Returns each attempt's steps, placed along the time from the plan to the end."""
    attempts, begin = batch["attempts"], batch["planned_at"]
    if not attempts:
        return []
    end = batch["closed_at"] or max(row["closed_at"] or now for row in attempts)
    whole = max((end - begin).total_seconds(), 0.001)

    def at(moment: datetime) -> float:
        return float(round(TIMELINE_WIDTH * min(max((moment - begin).total_seconds() / whole, 0), 1), 1))

    spans = []
    for row in attempts:
        marks = [
            ("wait", begin),
            ("stage", row["opened_at"]),
            ("validate", row["staged_at"]),
            ("commit", row["validated_at"]),
        ]
        reached = [(step, moment) for step, moment in marks if moment is not None]
        ended = row["closed_at"] or now
        if row["state"] != BatchState.COMMITTED:  # its progress is all that is known
            reached[-1] = (AttemptState.OPEN, reached[-1][1])
        ends = [moment for _, moment in reached[1:]] + [ended]
        spans.append(
            {
                "attempt": row["attempt"],
                "state": row["state"],
                "steps": [
                    (step, at(since), round(max(at(until) - at(since), 1.0), 1), (until - since).total_seconds())
                    for (step, since), until in zip(reached, ends, strict=True)
                ],
            }
        )
    return spans


def _effect(effect: Document) -> str:
    """Describes in words what the target did. Several targets have an effect each, by table."""
    each = effect if all(isinstance(its, dict) for its in effect.values()) else {"The target": effect}
    return " ".join(_effect_of(table, its) for table, its in each.items())


def _effect_of(table: str, effect: Document) -> str:
    said = [f"{count:,} {what}" for what, count in effect.items() if isinstance(count, int) and count]
    return f"{table}: {', '.join(said)}." if said else f"{table} was left as it was."
