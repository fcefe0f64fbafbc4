"""Reads and completes connection strings. One may carry the command that gives its password."""

from __future__ import annotations

from typing import Any

from psycopg2 import ProgrammingError
from psycopg2.extensions import make_dsn, parse_dsn

CONNECT_SECONDS = 10
SILENT_SECONDS = 30  # sent data is acknowledged by then, or the connection counts as dead
OF_COMMAND = "|"  # how the passfile of a DSN begins that holds a command. libpq never sees it.


def with_password_command(dsn: str, command: str) -> str:
    """Returns a DSN that carries the command for its password, to wherever the DSN travels.

    Leaves out the command if the DSN has a password. Keeps a DSN that cannot be read: who connects refuses it.
    """
    if not command:
        return dsn
    try:
        return dsn if parse_dsn(dsn).get("password") else make_dsn(dsn, passfile=f"{OF_COMMAND}{command}")
    except ProgrammingError:
        return dsn


def parts_and_command(dsn: str) -> tuple[dict[str, Any], str | None]:
    """Returns the parameters of a DSN by libpq's names, and apart from them its password command, or None.

    A DSN of several servers leads to the one that can be written, unless it says which one it wants.
    """
    parts = dict(parse_dsn(dsn))
    command = None
    if parts.get("passfile", "").startswith(OF_COMMAND):
        command = parts.pop("passfile").removeprefix(OF_COMMAND)
    if "," in parts.get("host", "") + parts.get("hostaddr", ""):
        parts.setdefault("target_session_attrs", "read-write")
    return parts, command


def way_to(dsn: str) -> tuple[list[str], str]:
    """Returns the hosts that a DSN names, without sockets, and its sslmode. Both are empty if it names none.

    They are empty for a text that is no DSN, too: who connects refuses it.
    """
    try:
        parts = parse_dsn(dsn)
    except ProgrammingError:
        return [], ""
    return [host for host in parts.get("host", "").split(",") if not host.startswith("/")], parts.get("sslmode", "")


def staging_dsn(dsn: str, name: str) -> str:
    """Returns an executor's DSN, with timeouts for a peer that is silent. `open_stager` connects with it."""
    return make_dsn(
        dsn,
        application_name=name,
        connect_timeout=CONNECT_SECONDS,
        **patience("keepalives_"),
        tcp_user_timeout=SILENT_SECONDS * 1000,
    )


def patience(prefix: str) -> dict[str, Any]:
    """Returns keepalive settings, by which either end detects a peer that is silent for `SILENT_SECONDS`."""
    idle, interval = max(1, SILENT_SECONDS // 3), max(1, SILENT_SECONDS // 6)
    return {f"{prefix}idle": idle, f"{prefix}interval": interval, f"{prefix}count": 3}
