"""Renders refusals as pages: the reason in one line, and the next command."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from lockstep.core.errors import Refusal
from lockstep.web.headers import headers
from lockstep.web.render import page

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

log = logging.getLogger(__name__)
TITLES = {
    401: "You are not logged in",
    403: "You may not read this",
    404: "There is no such page",
    422: "This cannot be shown",
    503: "The ledger is away",
}


def tell_people(app: FastAPI) -> None:
    """Turns refusals of every kind into pages with their own status. Shows nothing of the code."""
    app.add_exception_handler(HTTPException, _said)  # type: ignore[arg-type]  # Starlette's handlers take any error
    app.add_exception_handler(RequestValidationError, _misread)  # type: ignore[arg-type]
    app.add_exception_handler(Refusal, _refused)  # type: ignore[arg-type]
    app.add_exception_handler(Exception, _broken)


def _said(_request: Request, error: HTTPException) -> HTMLResponse:
    return _page(error.status_code, str(error.detail), error.headers)


def _misread(_request: Request, error: RequestValidationError) -> HTMLResponse:
    return _page(422, "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors()))


def _refused(_request: Request, refusal: Refusal) -> HTMLResponse:
    return _page(503, str(refusal))


def _broken(_request: Request, error: Exception) -> HTMLResponse:
    log.error("A page of Lockstep could not be made.", exc_info=error)
    return _page(500, f"{type(error).__name__}; the log of Airflow's API server says where.")


def _page(status: int, why: str, given: object = None) -> HTMLResponse:
    title = TITLES.get(status, "Something is wrong")
    body = page("refused.html.jinja", title=title, why=why, status=status)
    own = dict(given) if isinstance(given, dict) else {}
    return HTMLResponse(body, status, headers=own | headers())
