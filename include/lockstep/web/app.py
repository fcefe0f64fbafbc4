"""The app that Airflow serves under /lockstep; every route asks for Airflow's login and the right to read that DAG."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from airflow.api_fastapi.core_api.security import ReadableDagsFilterDep, requires_access_dag
from fastapi import APIRouter, Depends, FastAPI, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from lockstep.web.asked import ALONG, COLOURS, Asked
from lockstep.web.batch_page import batch_page
from lockstep.web.batches_page import batch_of_run, batches_page
from lockstep.web.coverage_page import coverage_page
from lockstep.web.pipelines_page import pipelines_page
from lockstep.web.record_page import record_page
from lockstep.web.render import page

Offset = Annotated[int | None, Query(ge=0, lt=2**63)]


def app() -> FastAPI:
    """The routes, without the documentation that FastAPI would serve to everybody."""
    made = FastAPI(title="Lockstep", docs_url=None, redoc_url=None, openapi_url=None)
    made.get("/", response_class=HTMLResponse)(_pipelines)
    pages = APIRouter(prefix="/dags/{dag_id}", dependencies=[Depends(requires_access_dag(method="GET"))])
    pages.get("/coverage", response_class=HTMLResponse)(_coverage)
    pages.get("/batches", response_class=HTMLResponse)(_batches)
    pages.get("/batches/{batch_id}", response_class=HTMLResponse)(batch_page)
    pages.get("/record", response_class=HTMLResponse)(_record)
    pages.get("/runs/{run_id}", response_model=None)(_run)
    made.include_router(pages)
    return made


def _pipelines(readable: ReadableDagsFilterDep) -> str:
    return pipelines_page(readable.value or set())


def _coverage(
    dag_id: str,
    from_: Annotated[str | None, Query(alias="from")] = None,
    until: str | None = None,
    first: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    colour: str = COLOURS[0],
    along: str = ALONG[0],
) -> str:
    known = {"colour": colour if colour in COLOURS else COLOURS[0], "along": along if along in ALONG else ALONG[0]}
    return coverage_page(dag_id, Asked(from_, until, first, **known))


def _batches(dag_id: str, lane: str = "all", before: str = "") -> str:
    return batches_page(dag_id, lane, int(before) if before.isdecimal() and int(before) < 2**63 else None)


def _record(
    dag_id: str,
    partition: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    offset: Offset = None,
    key: Annotated[list[str] | None, Query()] = None,
) -> str:
    return record_page(dag_id, partition, offset, key or [])


def _run(dag_id: str, run_id: str) -> Response:
    """The tab of a run or task leads to its batch; a run that planned none says so."""
    batch_id = batch_of_run(run_id, dag_id)
    if batch_id is None:
        return HTMLResponse(page("nothing.html.jinja", dag_id=dag_id, run_id=run_id))
    return RedirectResponse(f"/lockstep/dags/{quote(dag_id)}/batches/{batch_id}")
