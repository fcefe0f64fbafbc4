"""Renders a run of the history DAG: its decisions, what its previews found, and its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.changes.row_changes import RowChange
from lockstep.core.pipeline.names import pipeline_of_dag
from lockstep.ledger.changes import history, requests
from lockstep.ledger.views import overview
from lockstep.web.place import reading_ledger
from lockstep.web.render import page

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

BATCHES_SHOWN = 50  # batches


@dataclass(frozen=True, slots=True)
class HistoryRunFacts:
    """A history run in the ledger: its batches, the newest first, its requests and its decisions."""

    batches: list[int]
    asked: list[Any]
    decided: list[Any]

    @property
    def is_only_batches(self) -> bool:
        """Returns True if its batches say all there is to see."""
        return bool(self.batches) and not self.decided and not any(each.preview for each in self.asked)


def facts_of_run(dag_id: str, run_id: str) -> HistoryRunFacts:
    """Returns what the ledger has of a run of the history DAG."""
    name = pipeline_of_dag(dag_id)
    with reading_ledger() as cur:
        return HistoryRunFacts(
            overview.batches_of_run(cur, name, dag_id, run_id),
            history.requests_of_run(cur, name, run_id),
            history.decisions_of_run(cur, name, run_id),
        )


def run_page(dag_id: str, run_id: str, facts: HistoryRunFacts) -> str:
    """Renders the run. It says what was found where a preview has ended, and else that it has not."""
    with reading_ledger() as cur:
        previews = [_preview(cur, each) for each in facts.asked if each.preview]
        batches = overview.history(cur, facts.batches[:BATCHES_SHOWN])
    return page(
        "run.html.jinja",
        dag_id=dag_id,
        run_id=run_id,
        pipeline=pipeline_of_dag(dag_id),
        asked=[each for each in facts.asked if not each.preview],
        decided=facts.decided,
        previews=previews,
        kinds=tuple(RowChange),
        batches=batches,
        more=len(facts.batches) - len(batches),
    )


def _preview(cur: cursor, asked: Any) -> dict[str, Any]:
    """Returns a preview with its offsets, and with its difference once it is known."""
    found = history.rehearsal(cur, asked.request_id)
    windows = [each.offsets for each in requests.windows(cur, asked.request_id)]
    return {"request": asked, "windows": windows, "found": found and found.difference, "at": found and found.at}
