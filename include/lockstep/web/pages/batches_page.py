"""Renders a pipeline's history, the newest batch first."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.core.pipeline.names import pipeline_of_dag
from lockstep.core.states import BatchState, Lane
from lockstep.ledger.views import overview
from lockstep.web.place import reading_ledger, require_pipeline
from lockstep.web.render import page

LANES_TO_CHOOSE = ("all", *Lane)
STATES = ("all", *BatchState)
REJECTS_TO_CHOOSE = ("all", "with rejects")
BATCHES_PER_PAGE = 50


@dataclass(frozen=True, slots=True)
class BatchFilter:
    """The batches that a reader chooses: by lane, state and rejects, older than a batch, of one DAG run."""

    lane: str = LANES_TO_CHOOSE[0]
    state: str = STATES[0]
    before: int | None = None
    run_id: str | None = None
    rejects: str = REJECTS_TO_CHOOSE[0]


def batches_page(dag_id: str, wanted: BatchFilter) -> str:
    """Renders one page of the chosen batches, with a link to older ones."""
    name = pipeline_of_dag(dag_id)
    lane, state = (None if each == "all" else each for each in (wanted.lane, wanted.state))
    only = wanted.rejects != REJECTS_TO_CHOOSE[0]
    with reading_ledger() as cur:
        if wanted.run_id:
            of_run = overview.batches_of_run(cur, name, dag_id, wanted.run_id)
            ids = [batch_id for batch_id in of_run if wanted.before is None or batch_id < wanted.before]
        else:
            most = BATCHES_PER_PAGE + 1
            ids = overview.batches_before(cur, name, lane, state, wanted.before, most, rejects=only)
        found = overview.history(cur, ids[:BATCHES_PER_PAGE])
    if not found:
        require_pipeline(name)
    return page(
        "batches.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        batches=found,
        lanes=LANES_TO_CHOOSE,
        states=STATES,
        rejects=REJECTS_TO_CHOOSE,
        some=lane or state or only,
        wanted=wanted,
        more=len(ids) > BATCHES_PER_PAGE,
    )


def planned_batch(dag_id: str, run_id: str) -> int | None:
    """Returns the batch that a run of the live DAG has planned, or None."""
    name = pipeline_of_dag(dag_id)
    with reading_ledger() as cur:
        return overview.batch_of_run(cur, name, dag_id, run_id)
