"""Reads a page's words, and the access checks of its route."""

from __future__ import annotations

import re
from datetime import UTC, datetime


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


def utc(moment: datetime) -> str:
    """Returns a moment as a page writes it for a reader without a zone."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def rows(text: str, table: str) -> list[list[str]]:
    """Returns the words of each cell of a table, row by row."""
    body = re.search(rf'<table class="data" id="{table}">.*?<tbody>(.*?)</tbody>', text, re.DOTALL)[1]
    return [
        [
            re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", cell)).strip()
            for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)
        ]
        for row in re.findall(r"<tr>.*?</tr>", body, re.DOTALL)
    ]
