"""Renders the coverage: a lane per partition, along offsets or time, with a linked block for every segment."""

from __future__ import annotations

from lockstep.ledger import picture
from lockstep.ledger.hours import complete_through
from lockstep.steps.warn import bounds_of
from lockstep.web import drawing
from lockstep.web.asked import Asked, Streams
from lockstep.web.coverage_offsets import along_offsets
from lockstep.web.coverage_time import along_time
from lockstep.web.place import ledger, pipeline_of, view_of
from lockstep.web.render import page

LANES = 40  # on one page


def coverage_page(dag_id: str, asked: Asked) -> str:
    """Renders the picture of a pipeline's coverage, with its contents in words below."""
    name = pipeline_of(dag_id)
    with ledger() as cur:
        rows, count = picture.streams(cur, name, asked.first, LANES)
        through = complete_through(cur, name)
    if not rows:
        return page("coverage.html.jinja", dag_id=dag_id, pipeline=name, lanes=[], count=count, asked=asked)
    topic, unknown = view_of(rows[0].topic)
    bounds = {row.stream_id: own for row in rows if topic and (own := bounds_of(row, topic))}
    streams = Streams(rows, bounds, unknown, count)
    drawn = along_time(streams, asked, through) if asked.along == "time" else along_offsets(streams, asked)
    return page(
        "coverage.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        count=count,
        asked=asked,
        width=drawing.WIDTH,
        lane_height=drawing.LANE,
        height=drawing.height(drawn["lanes"]),
        unknown=unknown,
        complete_through=through,
        most=LANES,
        **drawn,
    )
