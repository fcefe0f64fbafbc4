"""Renders the coverage: a lane per partition, along offsets or time, with a linked block for every segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.ledger.views import picture
from lockstep.ledger.views.hours import complete_through, told_again
from lockstep.steps.inspect.warn import bounds_of
from lockstep.web.pages.asked import CoverageChoices, Streams
from lockstep.web.pictures import drawing
from lockstep.web.pictures.coverage_offsets import along_offsets
from lockstep.web.pictures.coverage_time import along_time
from lockstep.web.pictures.heat import heat
from lockstep.web.place import pipeline_of_dag, reading_ledger, require_pipeline, view_of, waiting_since
from lockstep.web.render import page

if TYPE_CHECKING:
    from lockstep.core.offsets import Bounds

LANES_PER_PAGE = 40  # on one page
HOURS_TO_CHOOSE = (1, 3, 6, 24, 168)  # until now, to choose from
TOLD_AGAIN = 5  # hours that changed after they were told, the newest


def coverage_page(dag_id: str, asked: CoverageChoices) -> str:
    """Renders the picture of a pipeline's coverage, with its contents in words below."""
    name = pipeline_of_dag(dag_id)
    with reading_ledger() as cur:
        every = picture.drawn_streams(cur, name)
        through, again = complete_through(cur, name), told_again(cur, name, TOLD_AGAIN)
    rows, count = every[asked.first : asked.first + LANES_PER_PAGE], len(every)
    if not rows and count:
        raise HTTPException(404, f"Pipeline {name} has only {count} partitions.")
    if not rows:
        require_pipeline(name)
        return page("coverage.html.jinja", dag_id=dag_id, pipeline=name, lanes=[], count=count, asked=asked)
    topic, unknown = view_of(rows[0].topic)
    bounds = {row.stream_id: own for row in every if topic and (own := bounds_of(row, topic))}
    streams = Streams(rows, {row.stream_id: bounds[row.stream_id] for row in rows if row.stream_id in bounds})
    if asked.along == "time":
        waiting = {r.partition: r.position for r in every if r.stream_id in bounds and _waits(r, bounds[r.stream_id])}
        drawn = along_time(streams, asked, through, waiting_since(name, every[0].topic, waiting))
    else:
        drawn = along_offsets(streams, asked)
    return page(
        "coverage.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        count=count,
        asked=asked,
        width=drawing.LANE_WIDTH,
        lane_height=drawing.LANE,
        height=drawing.height(drawn["lanes"]),
        unknown=unknown,
        complete_through=through,
        told_again=again,
        most=LANES_PER_PAGE,
        heat=heat(every, bounds, LANES_PER_PAGE),
        hours_back=HOURS_TO_CHOOSE,
        **drawn,
    )


def _waits(row: Any, own: Bounds) -> bool:
    position: int = row.position
    return own.stable_end > position
