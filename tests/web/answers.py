"""Reads a page's words, and the access checks of its route."""

from __future__ import annotations

import re


def guards(served) -> list:
    """Returns every access check that the routes make in Airflow before they answer."""
    asked = [
        each.call for route in served.routes if hasattr(route, "dependant") for each in route.dependant.dependencies
    ]
    return [call for call in asked if call.__module__ != "lockstep.web.app"]


def said(answer, status: int = 200) -> str:
    """Returns the page's words, without its markup."""
    assert answer.status_code == status, answer.text[:300]
    body = answer.text.partition("<body>")[2]
    return " ".join(re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", body, flags=re.DOTALL).split())
