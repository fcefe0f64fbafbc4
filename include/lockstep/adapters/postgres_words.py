"""Shortens errors of Postgres and its driver to one line, without a password."""

from __future__ import annotations

import re

from psycopg2 import DatabaseError, IntegrityError
from psycopg2.errors import ProgramLimitExceeded

COPIED_ROW = re.compile(r"COPY [^\n]*?, line ([0-9]+)")


def first_line(error: Exception) -> str:
    """Returns the first line of a server's error, without its hints."""
    return (str(error).strip().splitlines() or ["no reason given"])[0].strip()


def last_line(error: Exception) -> str:
    """Returns the last line of a driver's error: the cause behind its many lines."""
    return (str(error).strip().splitlines() or ["no reason given"])[-1].strip()


def without_values(error: DatabaseError) -> tuple[str, str]:
    """Returns the text of a server's error for the log, and the words that may quote values of rows.

    The first line names constraints and columns if one of these is violated. It names sizes if a row is too large for a
    page or an index. Other errors quote values.
    """
    said, more = error.diag.message_primary or "", error.diag.message_detail or ""
    if isinstance(error, IntegrityError | ProgramLimitExceeded):
        return said, more
    return type(error).__name__, f"{said} {more}".strip()


def copied_row(error: DatabaseError) -> int | None:
    """Returns the number of the row that the server was copying when it refused it, from 1 on, or None."""
    found = COPIED_ROW.match(error.diag.context or "")
    return int(found[1]) if found else None


def too_long(error: DatabaseError) -> str | None:
    """Returns the server's words about the size of a row, without the index, if it is too long for one. Else None."""
    return first_line(error).partition(" for index ")[0] if isinstance(error, ProgramLimitExceeded) else None


def without_secrets(error: Exception, parts: dict[str, str]) -> str:
    """Returns what each server of a DSN answered, unless that repeats a password, or an unescaped piece of one."""
    lines = [line.strip() for line in str(error).splitlines() if line.startswith("connection to server")]
    said, secret = "; ".join(lines) or last_line(error), parts.get("password")
    open_anyway = {parts.get(name) for name in ("user", "host", "dbname")}
    odd = (
        "@" in parts.get("host", "") + parts.get("dbname", "") or not parts.get("port", "0").replace(",", "").isdigit()
    )
    if odd or (secret and secret not in open_anyway and secret in said):
        return (
            "its reason is not shown, for it may hold a piece of the password (special characters are written as %XX)"
        )
    return said
