"""The app that Airflow serves under /lockstep; every route asks for Airflow's login and the right to read that DAG."""

from __future__ import annotations

from typing import Annotated

from airflow.api_fastapi.core_api.security import ReadableDagsFilterDep, requires_access_dag
from fastapi import Depends, FastAPI, Query
from fastapi.responses import HTMLResponse

from lockstep.web.batch_page import batch_page
from lockstep.web.coverage_page import COLOURS, Asked, coverage_page
from lockstep.web.pipelines_page import pipelines_page

Offset = Annotated[int | None, Query(ge=0, lt=2**63)]


def app() -> FastAPI:
    """The routes, without the documentation that FastAPI would serve to everybody."""
    made = FastAPI(title="Lockstep", docs_url=None, redoc_url=None, openapi_url=None)
    made.get("/", response_class=HTMLResponse)(_pipelines)
    may_read = [Depends(requires_access_dag(method="GET"))]
    for path, endpoint in {
        "/dags/{dag_id}/coverage": _coverage,
        "/dags/{dag_id}/batches/{batch_id}": batch_page,
    }.items():
        made.get(path, dependencies=may_read, response_class=HTMLResponse)(endpoint)
    return made


def _pipelines(readable: ReadableDagsFilterDep) -> str:
    return pipelines_page(readable.value or set())


def _coverage(
    dag_id: str,
    from_: Annotated[int | None, Query(alias="from", ge=0, lt=2**63)] = None,
    until: Offset = None,
    first: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    colour: str = COLOURS[0],
) -> str:
    return coverage_page(dag_id, Asked(from_, until, first, colour if colour in COLOURS else COLOURS[0]))
