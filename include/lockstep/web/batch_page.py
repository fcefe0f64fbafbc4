"""One batch: what it reads, what was tried for it, how long that took, and what became of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.ledger import reading
from lockstep.web.place import ledger, pipeline_of
from lockstep.web.render import page

if TYPE_CHECKING:
    from lockstep.ledger.reading import Document

WIDTH = 1000
PLACES = 5  # of bad rows, per expectation


def batch_page(dag_id: str, batch_id: int) -> str:
    """One batch of the DAG's pipeline: its ranges, what was tried for it, and what became of it."""
    name = pipeline_of(dag_id)
    with ledger() as cur:
        found = reading.batch(cur, batch_id)
    if found is None or found["pipeline"] != name:
        raise HTTPException(404, f"pipeline {name} has no batch {batch_id}")
    return page(
        "batch.html.jinja",
        dag_id=dag_id,
        batch=found,
        spans=_spans(found),
        expectations=_expectations(found),
        share=_share,
        pipeline_effect=_effect(found["effect"] or {}),
    )


def _spans(batch: Document) -> list[dict[str, Any]]:
    """Each attempt's steps along the time from the plan to the end."""
    attempts, begin = batch["attempts"], batch["planned_at"]
    if not attempts:
        return []
    now = datetime.now(UTC)
    end = batch["closed_at"] or max(row["closed_at"] or now for row in attempts)
    whole = max((end - begin).total_seconds(), 0.001)

    def at(moment: datetime) -> float:
        return float(round(WIDTH * min(max((moment - begin).total_seconds() / whole, 0), 1), 1))

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
        if row["state"] != "committed":  # how far it came is all that is known
            reached[-1] = ("open", reached[-1][1])
        ends = [moment for _, moment in reached[1:]] + [ended]
        spans.append(
            {
                "attempt": row["attempt"],
                "steps": [
                    (step, at(since), round(max(at(until) - at(since), 1.0), 1), (until - since).total_seconds())
                    for (step, since), until in zip(reached, ends, strict=True)
                ],
            }
        )
    return spans


def _expectations(batch: Document) -> list[dict[str, Any]]:
    """What the suite said, failed ones first; places are (partition, offset) where the batch has the stream."""
    results = ((batch["verdict"] or {}).get("result") or {}).get("results") or []
    told = []
    for result in results:
        config, found = result["expectation_config"], result.get("result") or {}
        told.append(
            {
                "type": config["type"],
                "column": config["kwargs"].get("column"),
                "success": result["success"],
                "failing": found.get("unexpected_count"),
                "places": [
                    (_partition(batch, row["_stream"]), row["_offset"])
                    for row in (found.get("unexpected_index_list") or [])[:PLACES]
                ],
            }
        )
    return sorted(told, key=lambda each: bool(each["success"]))


def _partition(batch: Document, stream_id: int) -> int | None:
    return next((row["partition"] for row in batch["ranges"] if row.get("stream_id") == stream_id), None)


def _effect(effect: Document) -> str:
    """What the target did, in words."""
    said = [f"{count:,} {what}" for what, count in effect.items() if isinstance(count, int) and count]
    return f"The target: {', '.join(said)}." if said else "The target was left as it was."


def _share(row: dict[str, Any], ranges: list[dict[str, Any]]) -> float:
    """A range's span in percent of the widest, for its bar."""
    widest = max(r["until_offset"] - r["from_offset"] for r in ranges)
    return float(round(100 * (row["until_offset"] - row["from_offset"]) / widest, 1))
