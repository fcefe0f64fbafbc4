"""Checks that the database knows the time zone of a calendar's windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import errors

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import Windows
from lockstep.core.windows.event_time import Calendar
from lockstep.ledger.queries import queries

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline

Q = queries("lockstep.targets.table", "zones")


def require_zone(cur: cursor, pipeline: Pipeline) -> None:
    """Refuses windows of a calendar whose time zone this Python knows, and the database does not."""
    target = pipeline.first
    if not isinstance(target, Windows) or not isinstance(target.window, Calendar):
        return
    try:
        cur.execute(Q["now_in_zone"], {"zone": target.window.zone})
    except errors.InvalidParameterValue:
        raise BadDefinition(
            f"{pipeline.name}: target.window: the database knows no time zone {target.window.zone!r}",
            next_command=f"name a place, such as 'Europe/Berlin', then lockstep migrate {pipeline.name}",
        ) from None
