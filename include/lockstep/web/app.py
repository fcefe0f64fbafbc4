"""The app that Airflow serves under /lockstep; every route asks for Airflow's login and the right to read that DAG."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.core_api.security import requires_access_dag
from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.airflow.connections import dsn
from lockstep.core.errors import Refusal
from lockstep.ledger import reading

if TYPE_CHECKING:
    from datetime import datetime

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined
)


def app() -> FastAPI:
    """The routes, without the documentation that FastAPI would serve to everybody."""
    made = FastAPI(title="Lockstep", docs_url=None, redoc_url=None, openapi_url=None)
    may_read = [Depends(requires_access_dag(method="GET"))]
    made.get("/dags/{dag_id}/batches/{batch_id}", dependencies=may_read, response_class=HTMLResponse)(batch_page)
    return made


def batch_page(dag_id: str, batch_id: int) -> str:
    """One batch of the DAG's pipeline: its ranges, what was tried for it, and what became of it."""
    try:
        with closing(connect(dsn("postgres_default"))) as conn, transaction(conn, READER) as cur:
            found = reading.batch(cur, batch_id)
    except Refusal as refusal:
        raise HTTPException(503, str(refusal)) from None
    if found is None or found["pipeline"] != dag_id:
        raise HTTPException(404, f"pipeline {dag_id} has no batch {batch_id}")
    return TEMPLATES.get_template("batch.html.jinja").render(batch=found, moment=_moment, share=_share)


def _moment(at: datetime | None) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC") if at else "not yet"


def _share(row: dict[str, Any], ranges: list[dict[str, Any]]) -> float:
    """A range's span in percent of the widest, for its bar."""
    widest = max(r["until_offset"] - r["from_offset"] for r in ranges)
    return float(round(100 * (row["until_offset"] - row["from_offset"]) / widest, 1))
