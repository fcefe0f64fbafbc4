"""Places the stages of a batch's attempts along their time, with links to Spark's own pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lockstep.core.figures import CLUSTER, SERVER
from lockstep.core.settings import ENVIRONMENT
from lockstep.core.states import AttemptState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockstep.ledger.views.reading import Document

SPARK_HISTORY_VARIABLE = "LOCKSTEP_SPARK_HISTORY"
STAGES_WIDTH = 1000
SKEWED, NOTICED_SECONDS = 3, 1.0  # a longest task that takes so many times the median, and so long, is marked
NOTES = {
    SERVER: "A Spark Connect server has read this attempt. It tells its clients neither stages nor memory. See its own pages.",
    CLUSTER: "Memory is that of the fullest executor, as its last heartbeat told it.",
}
NOT_YET = "The stages are kept as soon as this attempt has read."
NO_STAGES_KEPT = "No stages were kept: Spark ended first, or an older version has read."


def spark_part(attempts: Iterable[Document]) -> list[dict[str, Any]]:
    """Returns a document for each attempt that Spark has read for, the oldest first."""
    return [_of(row) for row in attempts if row["spark_application_id"]]


def _of(row: Document) -> dict[str, Any]:
    spark, reads = row["spark"], row["state"] == AttemptState.OPEN
    stages = spark["stages"] if spark else []
    note = NOTES.get(spark["place"]) if spark else NOT_YET if reads else NO_STAGES_KEPT
    return {
        "attempt": row["attempt"],
        "application": row["spark_application_id"],
        "ui": row["spark_ui"] if reads else None,  # it ends with the driver
        "history": _history(row["spark_application_id"]),
        "event_log": row["spark_event_log"],
        "figures": spark,
        "stages": _placed(stages),
        "more": (spark["stages_run"] or 0) - len(stages) if spark else 0,
        "note": note,
    }


def _history(application: str) -> str | None:
    """Returns the link to a history server's page, if one is configured."""
    address = ENVIRONMENT.get(SPARK_HISTORY_VARIABLE, "").strip().rstrip("/")
    known = address.startswith(("http://", "https://"))
    return f"{address}/history/{quote(application, safe='')}/stages/" if known else None


def _placed(stages: list[Document]) -> list[dict[str, Any]]:
    begins = [stage["began_at"].timestamp() for stage in stages if stage["began_at"]]
    ends = [stage["began_at"].timestamp() + (stage["seconds"] or 0) for stage in stages if stage["began_at"]]
    first, span = min(begins, default=0.0), max(max(ends, default=0.0) - min(begins, default=0.0), 0.001)

    def box(stage: Document) -> tuple[float, float]:
        began = stage["began_at"] or datetime.fromtimestamp(first, UTC)
        left = STAGES_WIDTH * (began.timestamp() - first) / span
        return round(min(left, STAGES_WIDTH - 2), 1), round(max(STAGES_WIDTH * (stage["seconds"] or 0) / span, 2), 1)

    return [stage | {"box": box(stage), "skewed": _is_skewed(stage)} for stage in stages]


def _is_skewed(stage: Document) -> bool:
    median, longest = stage["median_seconds"], stage["longest_seconds"]
    return longest is not None and longest >= max(NOTICED_SECONDS, SKEWED * median)
