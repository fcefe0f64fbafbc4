"""Formats times in the zone that the reader chose in Airflow. Only his browser knows it, and sends it as a cookie."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from urllib.parse import unquote
from zoneinfo import ZoneInfo

COOKIE = "lockstep_zone"  # written by the layout's script
LONGEST_ZONE = 64  # characters of a zone's name
ZONE: ContextVar[tzinfo] = ContextVar("zone", default=UTC)


def zone_of(cookie: str | None) -> tzinfo:
    """Returns the zone of that name. Returns UTC for none, and for one that this machine does not know."""
    name = unquote(cookie or "")
    if name in {"", "UTC"} or len(name) > LONGEST_ZONE:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such zone, no name of one, or a folder of them
        return UTC


def zone_name() -> str:
    """Returns the name of the reader's zone."""
    return str(ZONE.get())


def local(at: datetime) -> datetime:
    """Returns the moment in the reader's zone, or in UTC if that is past the calendar's ends."""
    try:
        return at.astimezone(ZONE.get())
    except OverflowError:
        return at.astimezone(UTC)


def stamp(at: datetime, timespec: str = "seconds") -> str:
    """Formats as `2026-05-01 12:00:00 UTC`, or with the offset of another zone, such as `+02:00`."""
    here = local(at)
    clock = here.replace(tzinfo=None).isoformat(" ", timespec)
    offset = here.isoformat(timespec="seconds")[19:]
    return f"{clock} {'UTC' if ZONE.get() is UTC or here.tzinfo is UTC else offset}"
