"""Renders refusals as pages: the reason in one line, and the next command."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from lockstep.core.errors import Refusal
from lockstep.web.headers import headers
from lockstep.web.render import page

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

log = logging.getLogger(__name__)
ERROR_TITLES = {
    401: "You are not logged in",
    403: "You may not read this",
    400: "This cannot be shown",
    404: "There is no such page",
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
    """Answers a bad parameter, or the number of a batch that is none."""
    status = 404 if any(each["loc"][0] == "path" for each in error.errors()) else 400
    return _page(status, "; ".join(f"{each['loc'][-1]}: {_why(each)}" for each in error.errors()))


def _why(each: dict[str, Any]) -> str:
    """Returns the reason of our own check, or pydantic's."""
    return str(each["ctx"]["error"] if each["type"] == "value_error" else each["msg"])


def _refused(_request: Request, refusal: Refusal) -> HTMLResponse:
    return _page(503, refusal.message, next_command=refusal.next_command)


def _broken(_request: Request, error: Exception) -> HTMLResponse:
    log.error("A page of Lockstep could not be made.", exc_info=error)
    return _page(500, f"{type(error).__name__}; the log of Airflow's API server says where.")


def _page(status: int, why: str, given: object = None, next_command: str | None = None) -> HTMLResponse:
    title = ERROR_TITLES.get(status, "Something is wrong")
    body = page("refused.html.jinja", title=title, why=why, next_command=next_command, status=status)
    own = dict(given) if isinstance(given, dict) else {}
    return HTMLResponse(body, status, headers=own | headers())
