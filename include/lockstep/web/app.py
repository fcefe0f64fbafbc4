"""Builds the app that Airflow serves under /lockstep.

Every route requires Airflow's login and read access to the DAG.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import ReadableDagsFilterDep, requires_access_dag
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import AfterValidator, BeforeValidator, Field

from lockstep.core.health.health import Health
from lockstep.core.pipeline.names import SUFFIX, pipeline_of_dag
from lockstep.core.text import printable_line
from lockstep.web.headers import Guarded
from lockstep.web.metrics import metrics
from lockstep.web.pages.asked import ALONG, COLOURS, SCALES, CoverageChoices
from lockstep.web.pages.batch_page import batch_page
from lockstep.web.pages.batches_page import (
    LANES_TO_CHOOSE,
    REJECTS_TO_CHOOSE,
    STATES,
    BatchFilter,
    batches_page,
    planned_batch,
)
from lockstep.web.pages.coverage_page import coverage_page
from lockstep.web.pages.feed_page import change_set_page, feed_page
from lockstep.web.pages.late_page import late_page
from lockstep.web.pages.pipelines_page import Shown, pipelines_page
from lockstep.web.pages.record_page import record_page
from lockstep.web.pages.run_page import facts_of_run, run_page
from lockstep.web.pages.time_page import WINDOWS_TO_CHOOSE, TimeChoices, time_page
from lockstep.web.place import require_pipeline
from lockstep.web.refused import tell_people
from lockstep.web.render import page
from lockstep.web.rights import require_shown

# A field that a user has emptied counts as one that was not filled in.
Empty = BeforeValidator(lambda value: None if value == "" else value)
OffsetParameter = Annotated[Annotated[int, Field(ge=0, lt=2**63)] | None, Empty, Query()]
TopicName = Annotated[Annotated[str, Field(max_length=249)] | None, Empty, Query()]
Small = Annotated[Annotated[int, Field(ge=0, lt=2**31)] | None, Empty, Query()]
WindowCount = Annotated[Annotated[int, Field(ge=1, le=WINDOWS_TO_CHOOSE[-1])] | None, Empty, Query()]
Hours = Annotated[Annotated[int, Field(ge=1, le=87_600)] | None, Empty, Query()]


def _one_of(*known: str) -> AfterValidator:
    """Returns the check of a parameter that is one of these words. An empty one is the first of them."""

    def checked(value: str) -> str:
        if value and value not in known:
            raise ValueError(f"{printable_line(value[:40])} is none of {', '.join(filter(None, known))}")
        return value or known[0]

    return AfterValidator(checked)


AnyHealth = Annotated[str, _one_of("", *Health)]
LaneChoice = Annotated[str, _one_of(*LANES_TO_CHOOSE)]
State = Annotated[str, _one_of(*STATES)]
WithRejects = Annotated[str, _one_of(*REJECTS_TO_CHOOSE)]
Colour = Annotated[str, _one_of(*COLOURS)]
Along = Annotated[str, _one_of(*ALONG)]
ScaleParameter = Annotated[str, _one_of(*SCALES)]


def _require_storable(request: Request) -> None:
    """Refuses NUL in any part of the address, because no text of Postgres holds it."""
    given = [*request.path_params.items(), *request.query_params.multi_items()]
    for name, value in given:
        if "\0" in name or "\0" in str(value):
            raise HTTPException(400, f"{printable_line(name)}: holds NUL, which no name and no key does")


def _know_manager(request: Request) -> None:
    """Gives the app Airflow's manager of rights. Airflow's filter looks for it on the app that answers."""
    with suppress(RuntimeError):  # outside of Airflow's server there is none
        request.app.state.auth_manager = get_auth_manager()


def _require_shown(dag_id: str, readable: ReadableDagsFilterDep) -> None:
    """Refuses a DAG whose id alone leads to a pipeline."""
    require_shown(pipeline_of_dag(dag_id), readable.value or set())


def pages_app() -> FastAPI:
    """Returns the routes, without the documentation that FastAPI would serve to everybody."""
    first = [Depends(_require_storable), Depends(_know_manager)]  # before anything asks a database
    made = FastAPI(title="Lockstep", docs_url=None, redoc_url=None, openapi_url=None, dependencies=first)
    made.get("/", response_class=HTMLResponse)(_pipelines)
    made.get("/metrics", response_class=Response)(_metrics)
    pages = APIRouter(
        prefix="/dags/{dag_id}", dependencies=[Depends(requires_access_dag(method="GET")), Depends(_require_shown)]
    )
    pages.get("/coverage", response_class=HTMLResponse)(_coverage)
    pages.get("/batches", response_class=HTMLResponse)(_batches)
    pages.get("/batches/{batch_id}", response_class=HTMLResponse)(_batch)
    pages.get("/record", response_class=HTMLResponse)(_record)
    pages.get("/feed", response_class=HTMLResponse)(_feed)
    pages.get("/feed/{seq}", response_class=HTMLResponse)(_change_set)
    pages.get("/time", response_class=HTMLResponse)(_time)
    pages.get("/late", response_class=HTMLResponse)(_late)
    pages.get("/runs/{run_id}", response_model=None)(_run)
    made.include_router(pages)
    tell_people(made)
    made.add_middleware(Guarded)
    return made


def _pipelines(readable: ReadableDagsFilterDep, name: str = "", health: AnyHealth = "", owner: str = "") -> str:
    return pipelines_page(readable.value or set(), Shown(name, health, owner))


def _metrics(request: Request, readable: ReadableDagsFilterDep) -> Response:
    """Answers Prometheus with the pipelines that the page shows to the same reader."""
    content, content_type = metrics(readable.value or set(), request.headers.get("Accept", ""))
    return Response(content, headers={"Content-Type": content_type})


def _coverage(  # noqa: PLR0913, PLR0917 - each is a parameter of the address
    dag_id: str,
    from_: Annotated[str | None, Query(alias="from")] = None,
    until: str | None = None,
    first: Small = None,
    colour: Colour = COLOURS[0],
    along: Along = ALONG[0],
    scale: ScaleParameter = SCALES[0],
    last: Hours = None,
) -> str:
    along = "time" if last else along  # the last hours are a stretch of time
    return coverage_page(dag_id, CoverageChoices(from_, until, first or 0, colour, along, scale, last))


def _batches(
    dag_id: str,
    lane: LaneChoice = LANES_TO_CHOOSE[0],
    state: State = STATES[0],
    before: OffsetParameter = None,
    run: str = "",
    rejects: WithRejects = REJECTS_TO_CHOOSE[0],
) -> str:
    return batches_page(dag_id, BatchFilter(lane, state, before, run or None, rejects))


def _batch(dag_id: str, batch_id: Annotated[int, Field(ge=0, lt=2**63)]) -> str:
    return batch_page(dag_id, batch_id)


def _record(
    dag_id: str,
    topic: TopicName = None,
    partition: Small = None,
    offset: OffsetParameter = None,
    key: Annotated[list[str] | None, Query()] = None,
) -> HTMLResponse:
    return record_page(dag_id, topic or None, partition, offset, key or [])


def _feed(dag_id: str, target: str = "", before: OffsetParameter = None) -> str:
    return feed_page(dag_id, target, before)


def _change_set(
    dag_id: str,
    seq: Annotated[int, Field(ge=0, lt=2**63)],
    target: str = "",
    from_: Annotated[OffsetParameter, Query(alias="from")] = None,
) -> str:
    return change_set_page(dag_id, target, seq, from_)


def _time(dag_id: str, target: str = "", last: WindowCount = None, first: Small = None) -> str:
    return time_page(dag_id, TimeChoices(target, last or WINDOWS_TO_CHOOSE[0], first or 0))


def _late(dag_id: str, target: str = "", partition: Small = None, before: str = "") -> str:
    return late_page(dag_id, target, partition, before)


def _run(dag_id: str, run_id: str) -> Response:
    """Answers the tab of a run or task: redirects to its batches, or shows what else the run has done."""
    batches = f"/lockstep/dags/{quote(dag_id, safe='')}/batches"
    if not dag_id.endswith(SUFFIX):
        if (one := planned_batch(dag_id, run_id)) is None:
            require_pipeline(dag_id)
            return HTMLResponse(page("nothing.html.jinja", dag_id=dag_id, run_id=run_id))
        return RedirectResponse(f"{batches}/{one}")
    facts = facts_of_run(dag_id, run_id)
    if not facts.asked and not facts.decided and not facts.batches:
        require_pipeline(pipeline_of_dag(dag_id))
    if not facts.is_only_batches:
        return HTMLResponse(run_page(dag_id, run_id, facts))
    found = facts.batches
    return RedirectResponse(f"{batches}/{found[0]}" if len(found) == 1 else f"{batches}?run={quote(run_id, safe='')}")
