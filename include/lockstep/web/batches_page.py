"""A pipeline's history, the newest batch first."""

from __future__ import annotations

from lockstep.ledger import overview, reading
from lockstep.web.place import ledger, pipeline_of
from lockstep.web.render import page

LANES = ("all", "live", "fill", "replay")
MOST = 50


def batches_page(dag_id: str, lane: str, before: int | None) -> str:
    """So many batches, of all lanes or one, older than `before`."""
    name = pipeline_of(dag_id)
    lane = lane if lane in LANES else LANES[0]
    with ledger() as cur:
        ids = overview.batches_before(cur, name, None if lane == LANES[0] else lane, before, MOST + 1)
        found = reading.batches_of(cur, ids[:MOST])
    return page(
        "batches.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        batches=found[::-1],
        lane=lane,
        before=before,
        more=len(ids) > MOST,
    )


def batch_of_run(run_id: str, dag_id: str) -> int | None:
    """The batch that a DAG run has worked on."""
    with ledger() as cur:
        return overview.batch_of_run(cur, pipeline_of(dag_id), dag_id, run_id)
