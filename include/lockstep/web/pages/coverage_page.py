"""Renders the coverage: a lane per partition, along offsets or time, with a linked block for every segment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import HTTPException

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.offsets import TopicPartition
from lockstep.core.pipeline.names import pipeline_of_dag
from lockstep.ledger.views import picture
from lockstep.ledger.views.hours import complete_through, told_again
from lockstep.steps.inspect.warn import bounds_of
from lockstep.web.pages.asked import CoverageChoices, Streams
from lockstep.web.pictures import drawing
from lockstep.web.pictures.blocks import block_svg
from lockstep.web.pictures.coverage_offsets import along_offsets
from lockstep.web.pictures.coverage_time import along_time
from lockstep.web.pictures.heat import heat
from lockstep.web.place import ledger_session, require_pipeline, views_of, waiting_since
from lockstep.web.render import page

if TYPE_CHECKING:
    from lockstep.core.offsets import Bounds

LANES_PER_PAGE = 40  # on one page
HOURS_TO_CHOOSE = (1, 3, 6, 24, 168)  # until now, to choose from
TOLD_AGAIN = 5  # hours that changed after they were told, the newest


def coverage_page(dag_id: str, asked: CoverageChoices) -> str:
    """Renders the picture of a pipeline's coverage, with its contents in words below."""
    name = pipeline_of_dag(dag_id)
    with ledger_session() as conn:
        with transaction(conn, READER) as cur:
            every = picture.drawn_streams(cur, name)
            through, again = complete_through(cur, name), told_again(cur, name, TOLD_AGAIN)
        rows, count = every[asked.first : asked.first + LANES_PER_PAGE], len(every)
        if not rows and count:
            raise HTTPException(404, f"Pipeline {name} has only {count} partitions.")
        if not rows:
            require_pipeline(name)
            nothing = {"lanes": [], "of_topics": False, "count": count}
            return page("coverage.html.jinja", dag_id=dag_id, pipeline=name, asked=asked, **nothing)
        # The broker is asked between two transactions: none stays open while a page waits for it.
        topic, unknown = views_of(name, (row.topic for row in every))
        bounds = {row.stream_id: own for row in every if topic and (own := bounds_of(row, topic))}
        streams = Streams(rows, {row.stream_id: bounds[row.stream_id] for row in rows if row.stream_id in bounds})
        behind = {
            TopicPartition(r.topic, r.partition): r.position
            for r in every
            if r.stream_id in bounds and _waits(r, bounds[r.stream_id])
        }
        since = waiting_since(name, behind) if asked.along == "time" else {}
        with transaction(conn, READER) as cur:
            if asked.along == "time":
                drawn = along_time(cur, streams, asked, through, since)
            else:
                drawn = along_offsets(cur, streams, asked)
    return page(
        "coverage.html.jinja",
        dag_id=dag_id,
        pipeline=name,
        count=count,
        of_topics=len({row.topic for row in every}) > 1,
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
        block_svg=block_svg,
        **drawn,
    )


def _waits(row: Any, own: Bounds) -> bool:
    position: int = row.position
    return own.stable_end > position
