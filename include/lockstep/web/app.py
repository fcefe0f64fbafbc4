"""Builds the app that Airflow serves under /lockstep.

Every route requires Airflow's login and read access to the DAG.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.core_api.security import ReadableDagsFilterDep, auth_manager_from_app, requires_access_dag
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BeforeValidator, Field

from lockstep.cli.output import printable
from lockstep.web.asked import ALONG, COLOURS, Asked
from lockstep.web.batch_page import batch_page
from lockstep.web.batches_page import Wanted, batches_of_run, batches_page
from lockstep.web.coverage_page import coverage_page
from lockstep.web.headers import Guarded
from lockstep.web.pipelines_page import pipelines_page
from lockstep.web.record_page import record_page
from lockstep.web.refused import tell_people
from lockstep.web.render import page

# A field that a user has emptied counts as one that was not filled in.
Empty = BeforeValidator(lambda value: None if value == "" else value)
Offset = Annotated[Annotated[int, Field(ge=0, lt=2**63)] | None, Empty, Query()]
Small = Annotated[Annotated[int, Field(ge=0, lt=2**31)] | None, Empty, Query()]


def _require_storable(request: Request) -> None:
    """Refuses NUL in any part of the address, because no text of Postgres holds it."""
    given = [*request.path_params.items(), *request.query_params.multi_items()]
    for name, value in given:
        if "\0" in name or "\0" in str(value):
            raise HTTPException(422, f"{printable(name)}: holds NUL, which no name and no key does")


def app() -> FastAPI:
    """Returns the routes, without the documentation that FastAPI would serve to everybody."""
    storable = [Depends(_require_storable)]  # before anything asks a database
    made = FastAPI(title="Lockstep", docs_url=None, redoc_url=None, openapi_url=None, dependencies=storable)
    # Airflow's filter looks for the manager on the app that answers, which is this one.
    made.dependency_overrides[auth_manager_from_app] = get_auth_manager
    made.get("/", response_class=HTMLResponse)(_pipelines)
    pages = APIRouter(prefix="/dags/{dag_id}", dependencies=[Depends(requires_access_dag(method="GET"))])
    pages.get("/coverage", response_class=HTMLResponse)(_coverage)
    pages.get("/batches", response_class=HTMLResponse)(_batches)
    pages.get("/batches/{batch_id}", response_class=HTMLResponse)(_batch)
    pages.get("/record", response_class=HTMLResponse)(_record)
    pages.get("/runs/{run_id}", response_model=None)(_run)
    made.include_router(pages)
    tell_people(made)
    made.add_middleware(Guarded)
    return made


def _pipelines(readable: ReadableDagsFilterDep) -> str:
    return pipelines_page(readable.value or set())


def _coverage(
    dag_id: str,
    from_: Annotated[str | None, Query(alias="from")] = None,
    until: str | None = None,
    first: Small = None,
    colour: str = COLOURS[0],
    along: str = ALONG[0],
) -> str:
    known = {"colour": colour if colour in COLOURS else COLOURS[0], "along": along if along in ALONG else ALONG[0]}
    return coverage_page(dag_id, Asked(from_, until, first or 0, **known))


def _batches(dag_id: str, lane: str = "all", before: Offset = None, run: str = "") -> str:
    return batches_page(dag_id, Wanted(lane, before, run or None))


def _batch(dag_id: str, batch_id: Annotated[int, Field(ge=0, lt=2**63)]) -> str:
    return batch_page(dag_id, batch_id)


def _record(
    dag_id: str,
    partition: Small = None,
    offset: Offset = None,
    key: Annotated[list[str] | None, Query()] = None,
) -> str:
    return record_page(dag_id, partition, offset, key or [])


def _run(dag_id: str, run_id: str) -> Response:
    """Redirects the tab of a run or task to its batch, or to its batches. Says so if the run planned none."""
    found = batches_of_run(dag_id, run_id)
    if not found:
        return HTMLResponse(page("nothing.html.jinja", dag_id=dag_id, run_id=run_id))
    batches = f"/lockstep/dags/{quote(dag_id, safe='')}/batches"
    return RedirectResponse(
        f"{batches}/{found[0]}" if len(found) == 1 else f"{batches}?run={quote(run_id, safe='')}",
    )
