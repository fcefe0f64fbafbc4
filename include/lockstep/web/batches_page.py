"""Renders a pipeline's history, the newest batch first."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.core.names import SUFFIX
from lockstep.ledger import overview
from lockstep.web.place import ledger, pipeline_of
from lockstep.web.render import page

LANES = ("all", "live", "fill", "replay")
MOST = 50


@dataclass(frozen=True, slots=True)
class Wanted:
    """The batches that a reader chooses: of a lane, older than a batch, of one DAG run."""

    lane: str = LANES[0]
    before: int | None = None
    run_id: str | None = None


def batches_page(dag_id: str, wanted: Wanted) -> str:
    """Renders one page of the chosen batches, with a link to older ones."""
    name = pipeline_of(dag_id)
    lane = wanted.lane if wanted.lane in LANES else LANES[0]
    with ledger() as cur:
        if wanted.run_id:
            of_run = overview.batches_of_run(cur, name, dag_id, wanted.run_id)
            ids = [batch_id for batch_id in of_run if wanted.before is None or batch_id < wanted.before]
        else:
            ids = overview.batches_before(cur, name, None if lane == LANES[0] else lane, wanted.before, MOST + 1)
        found = overview.history(cur, ids[:MOST])
    return page(
        "batches.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        batches=found,
        lanes=LANES,
        lane=lane,
        wanted=wanted,
        more=len(ids) > MOST,
    )


def batches_of_run(dag_id: str, run_id: str) -> list[int]:
    """Returns the batches of a DAG run, the newest first.

    A live run has the batch that it planned. A run of the history DAG has all of its batches.
    """
    name = pipeline_of(dag_id)
    with ledger() as cur:
        if dag_id.endswith(SUFFIX) and (found := overview.batches_of_run(cur, name, dag_id, run_id)):
            return found
        one = overview.batch_of_run(cur, name, dag_id, run_id)
    return [] if one is None else [one]
