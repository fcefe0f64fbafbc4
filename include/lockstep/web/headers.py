"""Sets the headers of every answer: no foreign script, no cache, and frames only inside Airflow."""

from __future__ import annotations

import secrets
from contextvars import ContextVar
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection

from lockstep.web.zone import COOKIE, ZONE, zone_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

NONCE: ContextVar[str] = ContextVar("nonce")


def nonce() -> str:
    """Returns the one-time word of the request, which each script of its page carries."""
    found = NONCE.get(None)
    if found is None:
        NONCE.set(found := secrets.token_urlsafe(16))
    return found


def headers() -> dict[str, str]:
    """Returns the headers of the request's answer.

    Allows any style, because bars and axes carry their lengths as attributes.
    """
    policy = {
        "default-src": "'none'",
        "script-src": f"'nonce-{nonce()}'",
        "style-src": "'unsafe-inline'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'self'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "SAMEORIGIN",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


class Guarded:
    """The middleware that adds the headers to each answer.

    An error page brings its own headers, because it is made outside of this middleware.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, with a nonce of its own, in the reader's time zone."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        NONCE.set(secrets.token_urlsafe(16))
        ZONE.set(zone_of(HTTPConnection(scope).cookies.get(COOKIE)))

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(headers())
            await send(message)

        await self._app(scope, receive, answer)
